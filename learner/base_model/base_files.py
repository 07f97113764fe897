"""Copy the files of the base model that are not weights into each written model, unchanged.

In: `run.model`, whose small files are in a folder or in the hub's cache. Out: config, generation config, tokenizer,
templates and processor next to the weights. A library may load a file and refuse to save it, so no file is re-saved
except the config, whose type is the run's. Used by `write_model` after the weights are on disk: a file that is not
available costs a log line. The learner's start and the doctor ask which those would be.
"""

from __future__ import annotations

import json
import logging
import tempfile
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from broker.errors import RunFailed
from config.run import ModelConfig
from learner.base_model.hub import CONFIG, at_hand, file_arguments, hub_arguments
from learner.base_model.own_head import tied_names
from tasks.chat_template import with_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

log = logging.getLogger(__name__)

GENERATION: Final = "generation_config.json"
TOKENIZER_CONFIG: Final = "tokenizer_config.json"
TEMPLATE: Final = "chat_template.jinja"
# By the names of transformers and vLLM; files of a tokenizer with its own class are found through that class.
TOKENIZER: Final = (
    TOKENIZER_CONFIG,
    "tokenizer.json",
    "special_tokens_map.json",
    "added_tokens.json",
    "vocab.json",
    "vocab.txt",
    "merges.txt",
    "tokenizer.model",
    "spiece.model",
    "sentencepiece.bpe.model",
    "tekken.json",
)
TEMPLATES: Final = (TEMPLATE, "chat_template.json")
PROCESSOR: Final = (
    "preprocessor_config.json",
    "processor_config.json",
    "video_preprocessor_config.json",
    "audio_preprocessor_config.json",
)
SMALL: Final = (GENERATION, *TOKENIZER, *TEMPLATES, *PROCESSOR)
MORE_TEMPLATES: Final = "additional_chat_templates"  # a folder
PROBE: Final = "The 3 quick brown foxes, été 東京: x = 1/2\n\tdef f(): return -0.5"


def write_base_files(
    folder: Path, source: ModelConfig, *, dtype: Any, weights: Collection[str], fetch: bool = False
) -> list[str]:
    """Write the files of a model except its weights.

    Args:
        folder: of the model; it exists.
        source: the base model, with its chat template or a replacement.
        dtype: the type of the weights; None: the base's.
        weights: their names. With a head among them, the head is the model's own, whatever the base's config says.
        fetch: download files of the base from the hub, rather than only read its cache.
    Returns:
        A line for each file that is missing or differs from the base model's.
    Raises:
        OSError: the folder can't be written.
    """
    words: list[str] = []
    try:
        source = at_hand(source, SMALL, fetch=fetch)
    except Exception as error:  # noqa: BLE001 - any: hub, cache and network fail in many ways
        words.append(
            f"the files beside its weights can't be had: {type(error).__name__}: {_first_line(error)}"
        )
    files = _files_of(source)
    _write_config(folder, source, files.pop(CONFIG, None), words, dtype=dtype, weights=weights)
    for name, file in files.items():
        if source.chat_template is not None and _is_template(name):
            continue
        try:
            content = file.read_bytes()
        except OSError as error:
            words.append(f"{name} is not there: {error}")
            continue
        if name == TOKENIZER_CONFIG and source.chat_template is not None:
            content = _without_template(content)
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(content)
    if source.chat_template is not None:
        (folder / TEMPLATE).write_text(source.chat_template.text, encoding="utf-8")
    if not any(name in files for name in TOKENIZER) and Path(source.path).is_dir():
        _save_tokenizer(folder, source, words)
    return words


def what_is_odd(source: ModelConfig, tokenizer: PreTrainedTokenizerBase | None = None) -> list[str]:
    """Report the base model's files that its own library refuses, and their fate in written models.

    Everything but the weights is written once to a temporary folder and read again.

    Args:
        source: the base model.
        tokenizer: the base's, if it is already loaded.
    Returns:
        A line for each file; empty where all are fine.
    """
    words: list[str] = []
    with tempfile.TemporaryDirectory(prefix="millrace-model-") as scratch:
        out, saved = Path(scratch) / "out", Path(scratch) / "saved"
        out.mkdir()
        saved.mkdir()
        words += write_base_files(out, source, dtype=None, weights=(), fetch=True)
        words += filter(None, [_generation_word(out, saved)])
        words += [f"{name} is no JSON: {why}" for name, why in _no_json(out)]
        words += filter(None, [_tokenizer_word(source, tokenizer, out=out, saved=saved)])
    return words


def check_generation(source: ModelConfig) -> None:
    """Check that transformers and vLLM load a model with this generation config; both read it with the model.

    Raises:
        RunFailed: they do not; the message has their objection.
    """
    from transformers import GenerationConfig

    with suppress(OSError):  # missing, or no JSON: both ignore it
        try:
            GenerationConfig.from_pretrained(source.path, **file_arguments(source))
        except (ValueError, TypeError) as error:
            raise RunFailed(
                f"model.path={source.path}: neither transformers nor vLLM loads a model with its {GENERATION}: "
                f"{_first_line(error)}. Take out what it names"
            ) from error


def report(words: list[str], source: ModelConfig) -> None:
    """Log the base model's files that could not be written, or not unchanged."""
    for word in words:
        log.warning("model_file model=%s %s", source.path, word)


def _files_of(source: ModelConfig) -> dict[str, Path]:
    """Return the base model's small files by their names in its folder; {} where there are none."""
    folder = Path(source.path)
    names = [CONFIG, *SMALL]
    names += sorted(path.name for path in folder.glob("*.tiktoken"))
    names += sorted(f"{MORE_TEMPLATES}/{path.name}" for path in folder.glob(f"{MORE_TEMPLATES}/*.jinja"))
    if source.trust_remote_code:
        names += sorted(path.name for path in folder.glob("*.py"))
        names += _named_by_code(folder)
    return {name: folder / name for name in dict.fromkeys(names) if (folder / name).is_file()}


def _named_by_code(folder: Path) -> list[str]:
    """Return the files in the folder that a tokenizer's own class names; none of them are weights."""
    texts = [path.read_text(encoding="utf-8", errors="replace") for path in folder.glob("token*.py")]
    small = (
        path for path in folder.iterdir() if path.suffix not in {".safetensors", ".bin", ".pt", ".pth", ".h5"}
    )
    return sorted(path.name for path in small if any(f'"{path.name}"' in text for text in texts))


def _write_config(
    folder: Path,
    source: ModelConfig,
    file: Path | None,
    words: list[str],
    *,
    dtype: Any,
    weights: Collection[str],
) -> None:
    """Write the config as transformers saves it, or else its own text with the run's type of weights."""
    from transformers import AutoConfig

    if file is None:
        words.append(f"{CONFIG} is not there: {source.path} has none")
        return
    changes: dict[str, Any] = {} if dtype is None else {"dtype": str(dtype).removeprefix("torch.")}
    try:
        if weights and tied_names(source).keys() & set(weights):
            changes["tie_word_embeddings"] = False
        config = AutoConfig.from_pretrained(source.path, **hub_arguments(source))  # with its dropout
        config.update(changes | ({} if dtype is None else {"dtype": dtype}))
        config.save_pretrained(folder)
    except Exception as error:  # noqa: BLE001 - any: the weights are written and must be usable
        try:
            described = json.loads(file.read_text(encoding="utf-8"))
            kept = {
                name: value for name, value in described.items() if name != "torch_dtype" or dtype is None
            }
            text = json.dumps(kept | changes, indent=2)
        except (OSError, ValueError, AttributeError, RecursionError) as unread:
            words.append(f"{CONFIG} is not there: {unread}")
            return
        (folder / CONFIG).write_text(text + "\n", encoding="utf-8")
        words.append(
            f"{CONFIG}: transformers refuses to save it ({_first_line(error)}): written as it was, with the type of "
            "the weights"
        )


def _save_tokenizer(folder: Path, source: ModelConfig, words: list[str]) -> None:
    """Let transformers write a tokenizer whose files have other names than those listed here."""
    from transformers import AutoTokenizer

    try:
        tokenizer = AutoTokenizer.from_pretrained(source.path, **hub_arguments(source))
        with_template(tokenizer, source).save_pretrained(folder)
    except Exception as error:  # noqa: BLE001 - any: a tokenizer's own class may raise anything
        words.append(f"the tokenizer is not there: {type(error).__name__}: {_first_line(error)}")


def _generation_word(out: Path, saved: Path) -> str:
    """Return transformers' objection to the generation config, if there is one."""
    from transformers import GenerationConfig

    if not (out / GENERATION).is_file():
        return ""
    try:
        config = GenerationConfig.from_pretrained(out)
    except Exception as error:  # noqa: BLE001 - any: the file may contain anything
        return (
            f"{GENERATION}: transformers can't read it ({_first_line(error)}): the stop tokens that it names are not "
            "known, and models of this run have the file as it is"
        )
    try:
        config.save_pretrained(saved)
    except Exception as error:  # noqa: BLE001 - as above
        return (
            f"{GENERATION}: transformers reads it, and refuses to save it ({_first_line(error)}): models of this run "
            "have the file as it is. To mend the base's: do_sample: true, or take out what it names"
        )
    return ""


def _no_json(out: Path) -> Iterator[tuple[str, str]]:
    """Yield the processor's files that are no JSON, each with the reason."""
    for name in PROCESSOR:
        if (out / name).is_file():
            try:
                json.loads((out / name).read_text(encoding="utf-8"))
            except (ValueError, RecursionError) as error:
                yield name, str(error)


def _tokenizer_word(
    source: ModelConfig, tokenizer: PreTrainedTokenizerBase | None, *, out: Path, saved: Path
) -> str:
    """Return what is wrong with the tokenizer: its copy can't be loaded, or differs, or can't be saved."""
    from transformers import AutoTokenizer

    arguments = hub_arguments(source)
    try:
        if tokenizer is None:
            tokenizer = with_template(AutoTokenizer.from_pretrained(source.path, **arguments), source)
        again = AutoTokenizer.from_pretrained(out, trust_remote_code=source.trust_remote_code)
    except Exception as error:  # noqa: BLE001 - any: a tokenizer's own class may raise anything
        return f"the tokenizer can't be loaded from a copy of its files: {type(error).__name__}: {_first_line(error)}"
    own, copied = (each(PROBE, add_special_tokens=False)["input_ids"] for each in (tokenizer, again))
    if own != copied or tokenizer.chat_template != again.chat_template:
        return "the tokenizer is another one when it is loaded from a copy of its files: look at their names"
    try:
        tokenizer.save_pretrained(saved)
    except Exception as error:  # noqa: BLE001 - as above
        return (
            f"the tokenizer: transformers refuses to save it ({type(error).__name__}: {_first_line(error)}): models of "
            "this run have its files as they are"
        )
    return ""


def _is_template(name: str) -> bool:
    return name in TEMPLATES or name.startswith(f"{MORE_TEMPLATES}/")


def _without_template(content: bytes) -> bytes:
    """Return a tokenizer's config without its template, which the run replaces."""
    try:
        described = json.loads(content)
    except (ValueError, RecursionError):
        return content
    if not isinstance(described, dict) or described.pop("chat_template", None) is None:
        return content
    return (json.dumps(described, indent=2, ensure_ascii=False) + "\n").encode()


def _first_line(error: Exception) -> str:
    """Return an error's message in one line of bounded length."""
    return " ".join(str(error).split())[:300].rstrip(".") or type(error).__name__
