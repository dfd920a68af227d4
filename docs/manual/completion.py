# SPDX-License-Identifier: MIT
"""Completion of the tools' options in bash and zsh, from their help."""
import os

import programs

BASH = """# SPDX-License-Identifier: MIT
# bash completion of %(tool)s, made from its --help
_isomer_%(function)s()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
    COMPREPLY=()
%(before)s    if [[ $word == -* ]]; then
        COMPREPLY=($(compgen -W "%(options)s" -- "$word"))
%(other)s    fi
}
complete -o bashdefault -o default -F _isomer_%(function)s %(tool)s
"""
# A program of oshrun's has arguments of its own; isomer-info takes the name of a variable.
BEFORE = {"oshrun": """    local i
    for ((i = 1; i < COMP_CWORD; i++)); do
        case ${COMP_WORDS[i]} in
        %(valued)s) ((i++)) ;;
        -*) ;;
        *) return ;;
        esac
    done
    case $before in
    --wdir) COMPREPLY=($(compgen -d -- "$word")) && return ;;
    -x) COMPREPLY=($(compgen -W "%(variables)s" -e -- "$word")) && return ;;
    %(valued)s) return ;;
    esac
""", "isomer-info": """    if [[ $before == --variables ]]; then
        COMPREPLY=($(compgen -W all -- "$word")) && return
    fi
"""}
OTHER = {"oshrun": "", "isomer-info": """    else
        COMPREPLY=($(compgen -W "%(variables)s" -- "$word"))
"""}


def write(folder, tools, variables):
    names = " ".join(v[0] for v in variables)
    for tool, _, text in tools:
        if tool not in BEFORE:
            continue
        words = {"tool": tool, "function": tool.replace("-", "_"), "variables": names,
                 "options": " ".join(programs.options(text)), "valued": " | ".join(programs.valued(text))}
        words["before"], words["other"] = BEFORE[tool] % words, OTHER[tool] % words
        files = {"bash-completion/completions/" + tool: BASH % words, "zsh/site-functions/_" + tool: zsh(tool, text, words)}
        for name, said in files.items():
            os.makedirs(os.path.dirname("%s/%s" % (folder, name)), exist_ok=True)
            with open("%s/%s" % (folder, name), "w") as f:
                f.write(said)


def zsh(tool, text, words):
    """Options with the first line of what the help says of them."""
    out = ["#compdef " + tool, "# SPDX-License-Identifier: MIT", "# zsh completion of %s, made from its --help" % tool, "_arguments -S \\"]
    for names, value, said in programs.rows(text):
        said = said.replace("'", "").replace(":", "\\:").replace("[", "(").replace("]", ")")
        action = {"DIR": "_files -/", "VAR[=VALUE]": "_parameters -g \"*export*\""}.get(value, "")
        for name in names:
            out.append("    '%s[%s]%s' \\" % (name, said, ":%s:%s" % (value.split("[")[0].replace(":", "\\:"), action) if value else ""))
    last = "'1:program:_command_names -e' '*::arguments: _normal'" if tool == "oshrun" else "'::variable:(%s)'" % words["variables"]
    return "\n".join(out + ["    " + last]) + "\n"
