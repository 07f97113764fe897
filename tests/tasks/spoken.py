"""What opens a thought and what ends it, of each family of models, as its published template or parser writes them."""

from __future__ import annotations

ANALYSIS = "<|channel|>analysis<|message|>"
FINAL = "<|start|>assistant<|channel|>final<|message|>"
SPOKEN: dict[str, tuple[str, str]] = {
    "r1": ("<think>\n", "\n</think>\n\n"),
    "gpt-oss": (ANALYSIS, f"<|end|>{FINAL}"),
    "gpt-oss, recorded whole": (f"<|start|>assistant{ANALYSIS}", f"<|end|>{FINAL}"),
    "gpt-oss, a form asked for": (
        ANALYSIS,
        f"<|end|>{FINAL.replace('<|message|>', ' <|constrain|>json<|message|>')}",
    ),
    "gpt-oss, bare": ("analysis", "assistantfinal"),
    "seed-oss": ("<seed:think>\n", "</seed:think>"),
    "magistral": ("[THINK]", "[/THINK]"),
    "command a": ("<|START_THINKING|>", "<|END_THINKING|><|START_RESPONSE|>"),
    "command a plus": ("<|START_THINKING|>", "<|END_THINKING|>\n<|START_TEXT|>"),
    "command r7b": ("<|START_THINKING|>", "<|END_THINKING|>"),
    "kimi-vl": ("\u25c1think\u25b7", "\u25c1/think\u25b7"),
    "gemma 4": ("<|channel>thought\n", "<channel|>"),
    "openthinker": ("<|begin_of_thought|>\n\n", "\n\n<|end_of_thought|>\n\n<|begin_of_solution|>"),
    "apertus": ("<|inner_prefix|>", "<|inner_suffix|>"),
    "minimax-m3": ("<mm:think>", "</mm:think>"),
    "longcat": ("<longcat_think>\n", "\n</longcat_think>\n"),
    "plamo 3": ("<|plamo:begin_think:plamo|>", "<|plamo:end_think:plamo|>"),
    "k2 horizon": ("<ifm|think_fast>", "</ifm|think_fast>"),
    "kimi k3": ("<|open|>think<|sep|>", "<|close|>think<|sep|><|open|>response<|sep|>"),
    "inkling": ("<|content_thinking|>", "<|end_message|><|message_model|><|content_text|>"),
    "pangu": ("[unused16]", "[unused17]"),
    "hunyuan": ("<think:opensource>", "</think:opensource>"),
    "apriel": ("Here are my reasoning steps:\n", "\n[BEGIN FINAL RESPONSE]\n"),
    "granite 3.2": ("Here is my thought process:\n", "\nHere is my response:"),
    "granite 3.2, quantized": ("Here's my thought process:\n", "\nHere's my response:"),
    "hyperclova x": ("/think\n", "<|im_end|>\n<|im_start|>assistant\n"),
    "exaone deep": ("<thought>\n", "\n</thought>\n\n"),
    "marco-o1": ("<Thought>\n", "\n</Thought>\n"),
    "reflection": ("<thinking>", "</thinking>"),
    "recipes": ("<reasoning>\n", "\n</reasoning>\n"),
    "unsloth": ("<start_working_out>", "<end_working_out>"),
}
# What any text may hold: it opens no thought in the middle of a text.
PLAIN = {
    "gpt-oss, bare",
    "magistral",
    "pangu",
    "apriel",
    "granite 3.2",
    "granite 3.2, quantized",
    "hyperclova x",
}
PLAIN |= {"exaone deep", "marco-o1", "reflection", "recipes", "unsloth"}
NEVER_IN_THE_PROMPT = {"granite 3.2", "granite 3.2, quantized", "hyperclova x"}
