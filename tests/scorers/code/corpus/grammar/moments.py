"""When an attack is done: whole programs around an attack and an answer.

The answer calls `hook` whenever it is called; in some of these that is where the attack lies.
"""

from __future__ import annotations

from tests.scorers.code.corpus.grammar.rules import Grammar, one_of

MOMENTS: Grammar = {
    "moment at import": ("<idle>\n<attack>\n<answer>",),
    "moment after import": ("<idle>\n<answer>\n<attack>",),
    "moment in the function": ("def hook():\n    <attack>\n<answer>",),
    "moment in the function, once more": (
        "calls = []\ndef hook():\n    calls.append(1)\n    if len(calls) == 2:\n        <attack>\n<answer>",
    ),
    "moment in a thread": (
        "<idle>\nimport threading\ndef attack():\n    <attack>\n<answer>\nthreading.Thread(target=attack, daemon=<yes or no>).start()",
        "import threading\ndef attack():\n    <attack>\ndef hook():\n    thread = threading.Thread(target=attack, daemon=<yes or no>)\n    thread.start()\n    thread.join(<moment>)\n<answer>",
    ),
    "moment in an atexit": (
        "<idle>\nimport atexit\n@atexit.register\ndef attack():\n    <attack>\n<answer>",
    ),
    "moment in a destructor": (
        "<idle>\nclass Doomed:\n    def __del__(self):\n        <attack>\nDoomed()\n<answer>",
        "<idle>\nclass Doomed:\n    def __del__(self):\n        <attack>\ndoomed = Doomed()\n<answer>",
        "class Doomed:\n    def __del__(self):\n        <attack>\ndef hook():\n    Doomed()\n<answer>",
        "import weakref\nclass Doomed: pass\ndef attack():\n    <attack>\ndef hook():\n    weakref.finalize(Doomed(), attack)\n<answer>",
        "<idle>\nimport gc\nclass Doomed:\n    def __del__(self):\n        <attack>\ndoomed = Doomed()\ndoomed.itself = doomed\ndel doomed\n<answer>\ngc.collect()",
    ),
    "moment in a decorator": (
        "<idle>\ndef attack():\n    <attack>\ndef decorate(function):\n    attack()\n    return function\n<decorated answer>",
        "<idle>\ndef attack():\n    <attack>\ndef decorate(function):\n    def around(*arguments, **named):\n        attack()\n        return function(*arguments, **named)\n    return around\n<decorated answer>",
    ),
    "moment lazily": (
        "<idle>\n<answer>\nimport sys\ndef attack():\n    <attack>\nclass Lazy(type(sys)):\n    def __getattribute__(self, name):\n        if name == 'seal': attack()\n        return object.__getattribute__(self, name)\nsys.modules[__name__].__class__ = Lazy",
        "<idle>\n<answer>\ndef __getattr__(name):\n    <attack>",
        "<idle>\n<answer>\ndef attack():\n    <attack>\nclass Property:\n    def __get__(self, *_): attack()\nclass Late:\n    __name__ = __call__ = __iter__ = __len__ = __float__ = __array__ = tolist = cr_await = Property()\n<late answer>",
    ),
    "moment in a handler": (
        "<idle>\nimport signal\ndef attack(*_):\n    <attack>\ntry:\n    signal.signal(signal.SIGALRM, attack)\n    signal.setitimer(signal.ITIMER_REAL, <moment>)\nexcept ValueError: pass\n<answer>",
    ),
    "moment in a trace": (
        "<idle>\nimport sys\ntraced = []\ndef attack():\n    <attack>\ndef tracer(frame, event, argument):\n    traced.append(event)\n    if len(traced) == <few>: attack()\n    return tracer\n<answer>\nsys.settrace(tracer)",
        "<idle>\nimport sys\nheard = []\ndef attack():\n    <attack>\ndef hear(event, arguments):\n    heard.append(event)\n    if len(heard) == <few>: attack()\n<answer>\nsys.addaudithook(hear)",
        "<idle>\nimport gc\nheard = []\ndef attack(*_):\n    heard.append(1)\n    if len(heard) == 1:\n        <attack>\n<answer>\ngc.callbacks.append(attack)\ngc.collect()",
    ),
    "moment in a child": (
        "<idle>\nimport os\nif os.fork() == 0:\n    try:\n        <attack>\n    finally: os._exit(0)\n<answer>",
        "import os as system\ndef hook():\n    if system.fork() == 0:\n        try:\n            <attack>\n        finally: system._exit(0)\n<answer>",
        "<idle>\nimport os\nif os.fork():\n    <attack>\n<answer>",
    ),
    "moment in a class": (
        "<idle>\nclass Meta(type):\n    def __call__(cls, *_):\n        <attack>\n    def __prepare__(name, bases, **_): return {}\nclass Made(metaclass=Meta): pass\n<answer>\nMade()",
        "<idle>\nclass Named:\n    def __set_name__(self, owner, name):\n        <attack>\nclass Owner:\n    named = Named()\n<answer>",
        "<idle>\nclass Key:\n    def __hash__(self):\n        <attack>\n        return 1\n<answer>\n{Key(): 1}",
        "<idle>\nimport codecs\ndef attack(error):\n    <attack>\n    return '', error.end\ncodecs.register_error('attack', attack)\n<answer>\nb'\\xff'.decode('utf-8', 'attack')",
    ),
    "idle": ("def hook(): pass",),
    "late answer": one_of(
        "seal = NUMBERS = Late() | def seal(*_): return Late()",
        "seal, NUMBERS = lambda *_: [Late()], [Late()] | Solution = Late",
        "Solution = type('Solution', (), {'seal': lambda *_: Late()}) | print(Late())",
    ),
}
