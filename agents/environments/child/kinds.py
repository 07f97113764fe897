"""Name the module that prepares each kind of environment.

To add a kind: its module in this folder, a line here, and a section in `config/episodes/environments.py`.
"""

# Type of a section -> the module that prepares it.
KINDS = {
    "custom": "custom",
    "tools": "tools",
    "gymnasium": "games",
    "gem": "games",
    "textarena": "games",
    "agent": "own_loop.function",
    "command": "own_loop.command",
    "remote": "own_loop.remote",
    "verifiers": "own_loop.verifiers.kind",
    "nemo_gym": "own_loop.nemo_gym",
    "harbor": "workplaces.harbor",
    "swe": "workplaces.swe",
    "reasoning_gym": "tries",
    "code": "tries",
    "openenv": "openenv",
    "verl_tools": "verl_tools",
}
