"""Works out the requests to a language model: their prompts, their lengths, and a context that fits into the memory."""

import json
from pathlib import Path
from urllib.parse import urlsplit

from edgetop import formatting
from edgetop.cli.running.run_request import GenerationRequest
from edgetop.engines.formats import ModelFile
from edgetop.engines.spec import GenerationSpec
from edgetop.errors import InputError
from edgetop.files import read_text, why
from edgetop.frozen import frozen
from edgetop.models.gguf_file import read_gguf
from edgetop.models.language_model import LanguageModel, described
from edgetop.sensors.memory_sensors import read_meminfo
from edgetop.sensors.root import Root

MAX_PROMPT_BYTES = 16 * 1024 * 1024
MAX_PROMPTS = 10_000
MAX_URL = 2000
DEFAULT_TOKENS = 128
LEAST_CONTEXT = 512
TEMPLATE_BYTES = 256  # room for a chat template around a text
CONTEXT_STEP = 256  # llama.cpp rounds a context up to this many tokens (GGML_PAD in llama-context.cpp)
BATCH = 512  # tokens of a prompt that are processed at once: engines/child/llama_library.py
LOGIT_BYTES = 4
BUFFER_BYTES = 64 * 1024 * 1024  # of other intermediate results and of the runtime itself, measured with small models


@frozen
class Need:
    """The memory in bytes that a language model needs, estimated from its file: weights, context, calculations."""

    weights: int
    kv_per_token: int | None  # for all parallel requests together; None if the model has recurrent layers
    compute: int

    def with_context(self, tokens: int) -> int:
        return self.weights + (self.kv_per_token or 0) * tokens + self.compute


def generation_spec(
    asked: GenerationRequest, model: ModelFile, memory_limit: int | None, root: Root | None = None
) -> GenerationSpec:
    """Return the prompts, the lengths and the context size of the requests to a language model.

    `asked` holds the options of the user, and `model` is a GGUF file. `memory_limit` is the most memory in bytes that
    the engine may use; None for no limit. `root` is where the system's files are read; None for `/`. Raises InputError
    if a prompt cannot be read, or if the model and its context do not fit into the free memory.
    """
    language_model = described(read_gguf(model.path))
    prompts = _prompts(asked)
    prompt_tokens = 0 if prompts else asked.prompt_tokens or DEFAULT_TOKENS
    max_tokens = asked.max_tokens or DEFAULT_TOKENS
    # A token has at least one byte, apart from the first one, which the model's tokenizer adds.
    texts = (len(text.encode("utf-8", "surrogatepass")) + TEMPLATE_BYTES for text in prompts)
    longest = max(texts, default=prompt_tokens)
    wanted = max(LEAST_CONTEXT, -(-(longest + max_tokens) // CONTEXT_STEP) * CONTEXT_STEP)
    trained = language_model.context_length
    parallel = asked.parallel or 1
    need = _need(language_model, model, parallel)
    free = _free_bytes(memory_limit, root or Root())
    on_gpu = bool(asked.gpu_layers)
    context = _context(asked.context, wanted, trained, need, None if on_gpu else free)
    if trained is not None and context > trained:
        raise InputError(f"--context {context}: the model was trained with {trained} tokens", "choose a smaller one")
    if prompt_tokens >= context:
        text = f"a prompt of {formatting.quantity(prompt_tokens, 'token')} does not fit into a context of {context}"
        raise InputError(text, f"enlarge it: --context {prompt_tokens + max_tokens}")
    if free is not None and not on_gpu and need.with_context(context) > free:
        raise InputError(_too_little(need, context, free), _advice(need, free))
    return GenerationSpec(
        context=context,
        max_tokens=max_tokens,
        prompt_tokens=prompt_tokens,
        prompts=prompts,
        temperature=asked.temperature or 0.0,
        gpu_layers=asked.gpu_layers,
        parallel=parallel,
    )


def server_spec(asked: GenerationRequest, url: str) -> GenerationSpec:
    """Return the prompts and lengths of the requests to a language-model server.

    `url` is the server's address, such as `http://127.0.0.1:8080`. Without prompts in `asked`, edgetop sends no
    requests and only reads the server's metrics. Raises InputError if `url` is not an HTTP URL, or if a prompt cannot
    be read.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or len(url) > MAX_URL:
        raise InputError(f"--url {url[:MAX_URL]}: is not a URL of HTTP", "write http://127.0.0.1:8080")
    return GenerationSpec(
        context=0,
        max_tokens=asked.max_tokens or DEFAULT_TOKENS,
        prompts=_prompts(asked),
        temperature=asked.temperature or 0.0,
        url=url,
        parallel=asked.parallel or 1,
    )


def _context(asked: int | str | None, wanted: int, trained: int | None, need: Need, free: int | None) -> int:
    """Return the size of the context in tokens.

    `asked` is a number of tokens to use, or `auto` for as many as fit into `free` bytes, or None for `wanted`. `wanted`
    is what one request needs, and `trained` is what the model was trained with (None if unknown). `need` is the memory
    of the model. `free` None means that memory sets no limit.
    """
    if isinstance(asked, int):
        return asked
    if asked is None:
        return wanted if trained is None else min(wanted, trained)
    most = trained or wanted
    if not need.kv_per_token or free is None:
        return most
    fits = (free - need.weights - need.compute) // need.kv_per_token // CONTEXT_STEP * CONTEXT_STEP
    return min(most, max(fits, CONTEXT_STEP))


def _need(model: LanguageModel, file: ModelFile, parallel: int) -> Need:
    logits = BATCH * (model.vocabulary or 0) * LOGIT_BYTES
    kv_per_token = None if model.kv_bytes_per_token is None else model.kv_bytes_per_token * parallel
    return Need(file.size_bytes, kv_per_token, logits + BUFFER_BYTES)


def _too_little(need: Need, context: int, free: int) -> str:
    parts = [f"weights {formatting.size(need.weights)}"]
    if need.kv_per_token is not None:
        parts.append(f"a context of {context} tokens {formatting.size(need.kv_per_token * context)}")
    parts.append(f"buffers {formatting.size(need.compute)}")
    whole = formatting.size(need.with_context(context))
    return f"the model needs {whole} ({', '.join(parts)}), and {formatting.size(free)} are free"


def _advice(need: Need, free: int) -> str:
    rest = free - need.weights - need.compute
    if need.kv_per_token and rest >= need.kv_per_token * LEAST_CONTEXT:
        return "choose a smaller context: --context auto"
    return "close other programs, or take a smaller model or quantisation"


def _free_bytes(memory_limit: int | None, root: Root) -> int | None:
    """Return the bytes of memory that a program can use without swapping, at most `memory_limit`. None if unknown."""
    available = read_meminfo(root).get("MemAvailable")
    known = [value for value in (None if available is None else available * 1024, memory_limit) if value is not None]
    return min(known, default=None)


def _prompts(asked: GenerationRequest) -> tuple[str, ...]:
    if asked.prompts_file is not None:
        return _lines(asked.prompts_file)
    if asked.prompt is None:
        return ()
    path = Path(asked.prompt)
    if "\n" not in asked.prompt and len(asked.prompt) < 256 and path.is_file():
        text = _text(path)
        if not text.strip():
            raise InputError(f"--prompt {path}: is empty")
        return (text,)
    if not asked.prompt.strip():
        raise InputError("--prompt: is empty")
    return (asked.prompt,)


def _text(path: Path) -> str:
    try:
        return read_text(path, MAX_PROMPT_BYTES)
    except UnicodeDecodeError:
        raise InputError(f"{path}: is no text in UTF-8") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {why(error)}") from None


def _lines(path: Path) -> tuple[str, ...]:
    prompts: list[str] = []
    for number, line in enumerate(_text(path).splitlines(), 1):
        if not line.strip():
            continue
        if len(prompts) == MAX_PROMPTS:
            raise InputError(f"{path}: has more than {MAX_PROMPTS} prompts")
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            raise InputError(f"{path}: line {number} is no JSON") from None
        text = row.get("prompt", row.get("text")) if isinstance(row, dict) else row
        if not isinstance(text, str) or not text:
            raise InputError(f"{path}: line {number} has no prompt", 'write {"prompt": "..."} in each line')
        prompts.append(text)
    if not prompts:
        raise InputError(f"{path}: has no prompt")
    return tuple(prompts)
