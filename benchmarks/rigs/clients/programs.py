"""The agents of `benchmarks.proofs.agents`, as their users write them; each runs in a Python of its own.

Out: texts of modules. `told` is what each returns: its reward, and in the remark how many calls it made in how many
conversations, by the client's own count.
"""

from __future__ import annotations

from typing import Final

COUNTED: Final = """
import json


def told(row, text, calls, conversations=1):
    right = row["verification_info"]["answer"]["value"] if "verification_info" in row else row["answer"]["value"]
    count = json.dumps({"calls": calls, "conversations": conversations})
    return {"reward": float(right in str(text) or "right" == str(text).strip()), "remark": count}
"""
LOOK: Final = """
from boxes import look

PARAMETERS = {"type": "object", "properties": {"box": {"type": "string"}}, "required": ["box"]}
FUNCTION = {"name": "look", "description": "Look into a box.", "parameters": PARAMETERS}


def said_by(given):
    try:
        return look(**(json.loads(given) if isinstance(given, str) else given))
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""
BY_CHAT: Final = (
    LOOK
    + """

def by_chat(row, ask):
    messages, calls = list(row["messages"]), 0
    while calls < 4:
        message = ask(messages=messages, tools=[{"type": "function", "function": FUNCTION}])
        calls += 1
        messages.append(message)
        if not message.tool_calls:
            break
        for call in message.tool_calls:
            said = said_by(call.function.arguments)
            messages.append({"role": "tool", "tool_call_id": call.id, "content": said})
    return told(row, message.content, calls)
"""
)
OPENAI: Final = (
    BY_CHAT
    + """
import openai


def chat(base_url, api_key, row):
    client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=3600)

    def ask(**asked):
        return client.chat.completions.create(model="policy", **asked).choices[0].message

    return by_chat(row, ask)


def streamed(base_url, api_key, row):
    client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=3600)

    def ask(**asked):
        with client.chat.completions.stream(model="policy", **asked) as stream:
            try:
                found = stream.get_final_completion()
            except openai.LengthFinishReasonError as cut:
                found = cut.completion
        return found.choices[0].message

    return by_chat(row, ask)


def responses(base_url, api_key, row):
    client = openai.OpenAI(base_url=base_url, api_key=api_key, timeout=3600)
    items, calls = list(row["messages"]), 0
    while calls < 4:
        found = client.responses.create(model="policy", input=items, tools=[{"type": "function", **FUNCTION}])
        calls += 1
        items += found.output
        asked = [item for item in found.output if item.type == "function_call"]
        if not asked:
            break
        for call in asked:
            said = said_by(call.arguments)
            items.append({"type": "function_call_output", "call_id": call.call_id, "output": said})
    return told(row, found.output_text, calls)
"""
)
ANTHROPIC: Final = (
    LOOK
    + """
import anthropic

TOOLS = [{"name": "look", "description": "Look into a box.", "input_schema": PARAMETERS}]


def solve(base_url, api_key, row, ask):
    client = anthropic.Anthropic(base_url=base_url.removesuffix("/v1"), api_key=api_key, timeout=3600)
    messages, calls = list(row["messages"]), 0
    while calls < 4:
        found = ask(client, {"model": "policy", "max_tokens": 1024, "messages": messages, "tools": TOOLS})
        calls += 1
        messages.append({"role": "assistant", "content": found.content})
        asked = [block for block in found.content if block.type == "tool_use"]
        if not asked:
            break
        results = [{"type": "tool_result", "tool_use_id": one.id, "content": said_by(one.input)} for one in asked]
        messages.append({"role": "user", "content": results})
    return told(row, "".join(block.text for block in found.content if block.type == "text"), calls)


def messages(base_url, api_key, row):
    return solve(base_url, api_key, row, lambda client, asked: client.messages.create(**asked))


def streamed(base_url, api_key, row):
    def ask(client, asked):
        with client.messages.stream(**asked) as stream:
            return stream.get_final_message()

    return solve(base_url, api_key, row, ask)
"""
)
OPENAI_AGENTS: Final = '''
import agents
import boxes
import openai

agents.set_tracing_disabled(True)


@agents.function_tool
def look(box: str) -> str:
    """Look into a box."""
    return boxes.look(box)


async def solve(base_url, api_key, row, kind):
    async with openai.AsyncOpenAI(base_url=base_url, api_key=api_key, timeout=3600) as client:
        agent = agents.Agent(name="looker", model=kind(model="policy", openai_client=client), tools=[look])
        try:
            found = await agents.Runner.run(agent, input=list(row["messages"]), max_turns=4)
        except agents.AgentsException as error:
            return told(row, "", len(error.run_data.raw_responses))
    return told(row, found.final_output, len(found.raw_responses))


async def responses(base_url, api_key, row):
    return await solve(base_url, api_key, row, agents.OpenAIResponsesModel)


async def chat(base_url, api_key, row):
    return await solve(base_url, api_key, row, agents.OpenAIChatCompletionsModel)
'''
LANGGRAPH: Final = '''
import boxes
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def look(box: str) -> str:
    """Look into a box."""
    return boxes.look(box)


async def graph(base_url, api_key, row):
    model = ChatOpenAI(model="policy", base_url=base_url, api_key=api_key, timeout=3600).bind_tools([look])

    async def policy(state):
        return {"messages": [await model.ainvoke(state["messages"])]}

    built = StateGraph(MessagesState)
    built.add_node("policy", policy)
    built.add_node("tools", ToolNode([look], handle_tool_errors=True))
    built.add_edge(START, "policy")
    built.add_conditional_edges("policy", tools_condition)
    built.add_edge("tools", "policy")
    state = await built.compile().ainvoke({"messages": list(row["messages"])})
    said = [one for one in state["messages"] if one.type == "ai"]
    return told(row, said[-1].content, len(said))
'''
LITELLM: Final = (
    BY_CHAT
    + """
import litellm


def solve(row, **how):
    def ask(**asked):
        return litellm.completion(timeout=3600, **how, **asked).choices[0].message

    return by_chat(row, ask)


def as_openai(base_url, api_key, row):
    return solve(row, model="openai/policy", api_base=base_url, api_key=api_key)


def as_anthropic(base_url, api_key, row):
    return solve(row, model="anthropic/policy", api_base=base_url.removesuffix("/v1"), api_key=api_key)
"""
)
ASKED_OF_COMMAND: Final = """
import os
import pathlib

row = json.loads(pathlib.Path(os.environ["MILLRACE_ROW"]).read_text())
task = row["messages"][0]["content"]


def end(text, calls, conversations):
    found = json.dumps(told(row, text, calls, conversations))
    pathlib.Path(os.environ["MILLRACE_REWARD"]).write_text(found)
"""
SMOLAGENTS: Final = (
    ASKED_OF_COMMAND
    + """
from smolagents import CodeAgent, OpenAIModel
from smolagents.memory import ActionStep

model = OpenAIModel("policy", api_base=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
agent = CodeAgent(tools=[], model=model, max_steps=4, verbosity_level=0)
answer = agent.run(task)
calls = sum(isinstance(step, ActionStep) for step in agent.memory.steps)
end(answer, calls, 1 + (calls > 4))  # behind its last step it asks once more, in a conversation of its own
"""
)
MINI_SWE_AGENT: Final = (
    ASKED_OF_COMMAND
    + """
os.environ["MSWEA_COST_TRACKING"] = "ignore_errors"
os.environ["HOME"] = os.environ["MSWEA_GLOBAL_CONFIG_DIR"] = os.environ["MILLRACE_FOLDER"]
import minisweagent
from yaml import safe_load
from minisweagent.agents.default import DefaultAgent
from minisweagent.environments.local import LocalEnvironment
from minisweagent.models.litellm_model import LitellmModel

own = safe_load((pathlib.Path(minisweagent.__file__).parent / "config" / "mini.yaml").read_text())
kept = {name: own["agent"][name] for name in ("system_template", "instance_template")}
where = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
told_by = {name: own["model"][name] for name in ("observation_template", "format_error_template")}
model = LitellmModel(model_name="openai/policy", model_kwargs=where, **told_by)
agent = DefaultAgent(model, LocalEnvironment(cwd=os.environ["MILLRACE_FOLDER"]), step_limit=8, **kept)
found = agent.run(task)
lost = [one for one in agent.messages if one.get("extra", {}).get("interrupt_type") == "FormatError"]
end(found.get("submission", ""), agent.n_calls, 1 + len(lost))  # it leaves out an answer that calls nothing
"""
)
