# Read by every bash that a script of verl's runs in (BASH_ENV), behind the sandbox's walls: each program that is no
# text tool is replaced by one that writes down its arguments, and nothing that a script could need a machine for fails.
# Records go to descriptor 198: words, each behind it a \\035. MILLRACE_ANSWER says how programs answer:
# `many` and `few` (of devices), or `absent`: none is there. Works under `set -euo pipefail`, and leaves IFS alone.

exec 199>/dev/null
BASH_XTRACEFD=199
set -T
RANDOM=${MILLRACE_SEED-7}
HOME=$MILLRACE_HOME
PATH=$MILLRACE_PATH
__millrace_assigned=""
__millrace_naps=0
__millrace_at=0 # the line that was reached, and the one before
__millrace_last=0

# In pieces that a pipe takes at once, since programs in the background write, too.
__millrace_record() {
  local all LC_ALL=C
  printf -v all '%s\035' "$@"
  all=${all//$'\n'/$'\034'} # bash writes line by line
  while ((${#all} > 3000)); do
    printf '%s\036more\036%s\0' "$BASHPID" "${all:0:3000}" >&198
    all=${all:3000}
  done
  printf '%s\036end\036%s\0' "$BASHPID" "$all" >&198 || :
}

# LINE FILE WORDS...: what was called, where from; of what looks like a trainer, with what is exported.
__millrace_call() {
  local line=$1 file=$2 name names=() IFS=$'\n'
  shift 2
  case " $* " in
    *main_* | *train-ppo* | *_main*) for name in $(compgen -e); do names+=("$name=${!name-}"); done ;;
  esac
  __millrace_record call "$line" "$file" "$PWD" "$__millrace_assigned" "$#" "$@" "${names[@]}"
}

# What a program says whose answer the machine decides.
__millrace_says() {
  local count=8
  [ "$MILLRACE_ANSWER" = few ] && count=2
  case $1 in
    nvidia-smi | rocm-smi | npu-smi | amd-smi | scontrol)
      local at
      for ((at = 0; at < count; at++)); do printf '%s\n' "$1 $at"; done
      ;;
    which) [ "$MILLRACE_ANSWER" = absent ] || printf '/usr/bin/%s\n' "${@: -1}" ;;
    python*)
      if [ "$MILLRACE_ANSWER" != absent ] && { [ "${2-}" != -c ] || [[ "${3-}" == *print* ]]; }; then printf '%s\n' "$count"; fi
      ;;
    *) [ "$MILLRACE_ANSWER" = absent ] || printf "%s\n" "$count" ;;
  esac
}

__millrace_stub() {
  local at line=0 file="" word
  for ((at = 1; at < ${#BASH_SOURCE[@]}; at++)); do # past the functions of this file
    if [ "${BASH_SOURCE[at]}" != "${BASH_SOURCE[0]}" ] && [[ ${FUNCNAME[at]} != */* ]]; then
      line=${BASH_LINENO[at - 1]} file=${BASH_SOURCE[at]}
      break
    fi
  done
  local -a words=("$@")
  case ${1##*/} in
    mkdir | touch | cp | mv | rm | ln | chmod | chown | rsync | git | curl | wget | scp | bash | which)
      __millrace_call "$line" "$file" "$@"
      __millrace_done "$@"
      return
      ;;
  esac
  for ((at = 1; at < ${#words[@]}; at++)); do # nohup bash x.sh, srun bash -c "...", env A=1 ./x.sh
    word=${words[at]}
    case ${word##*/} in
      bash | sh)
        __millrace_call "$line" "$file" "${words[@]:0:at}"
        bash "${words[@]:at+1}"
        return
        ;;
      *.sh | *.bash | *.slurm | *.sbatch)
        if [ -r "$word" ]; then
          __millrace_call "$line" "$file" "${words[@]:0:at}"
          bash "${words[@]:at}"
          return
        fi
        ;;
      python* | torchrun | accelerate | main_* | verl) break ;;
    esac
    [[ $word == *=* && ${words[0]##*/} == env ]] && export "${word?}"
  done
  __millrace_call "$line" "$file" "$@"
  __millrace_done "$@"
}

# What a program says, and its status.
__millrace_done() {
  case ${1##*/} in
    mkdir | touch | cp | mv | rm | ln | chmod | chown | rsync | pip* | ray | module | apt* | kill | pkill | killall | \
      conda | mamba | source | rmdir | sync | clear | tput | reset | wandb | huggingface-cli | hf | tar | unzip | gzip) ;;
    git) if [ "${2-}${3-}" = rev-parse--show-toplevel ]; then printf '%s\n' "$MILLRACE_TOP"; else __millrace_says "$@"; fi ;;
    *) __millrace_says "$@" ;;
  esac
  case ${1##*/} in
    python* | *-smi | which | curl | wget | nc | lspci | scontrol) [ "$MILLRACE_ANSWER" != absent ] || return 1 ;;
  esac
  return 0
}

command_not_found_handle() { __millrace_stub "$@"; }

# A program with its path has no handler: a function of its name stands for it.
__millrace_before() {
  local -a matches=("${BASH_REMATCH[@]}") # the script's own stay
  __millrace_look "$@"
  BASH_REMATCH=("${matches[@]}")
}
__millrace_look() {
  local command=$1 line=$2 token
  local -a word=()
  case $command in __millrace* | command_not_found_handle*) return 0 ;; esac
  case ${FUNCNAME[2]-} in
    __millrace* | command_not_found_handle | cd | pwd | pushd | popd | source | . | exec | sleep | sh | tee | date | hostname | \
      mktemp | command | type | hash | exit) return 0 ;;
  esac
  __millrace_last=$__millrace_at
  __millrace_at=$line
  local assigned='^[A-Za-z_][A-Za-z0-9_]*\+?=' prefix='^[A-Za-z_][A-Za-z0-9_]*=([^[:space:]"'\''$(`]|"[^"$`]*"|'\''[^'\'']*'\''|\$[A-Za-z_0-9]+|\$\{[^}]*\})*[[:space:]]+'
  if [[ $command =~ $assigned ]]; then __millrace_assigned=${command%%[+=]*}; elif ((BASH_SUBSHELL == 0)); then __millrace_assigned=""; fi
  while [[ $command =~ $prefix ]]; do command=${command:${#BASH_REMATCH[0]}}; done
  [[ $command =~ ^(exec|command|time|builtin)[[:space:]]+ ]] && command=${command:${#BASH_REMATCH[0]}}
  token=${command%%[[:space:]]*}
  case $token in *'('* | *'`'* | *'='* | '' | -* | '[['* | for | case | select | *'{'*[!}\"]) [[ $token == *'${'*'}'* ]] || return 0 ;; esac
  case $token in *[/\$]*) ;; *) return 0 ;; esac
  case $token in *[\;\&\|\<\>\!\*\?]* | *'$('* | *'`'*) return 0 ;; esac
  eval "word=($token)" 2>/dev/null || return 0
  token=${word[0]-}
  case $token in */*) ;; *) return 0 ;; esac
  case $token in *[!A-Za-z0-9_./~+@%:,-]*) return 0 ;; esac
  declare -F "$token" >/dev/null && return 0
  case ${token##*/} in
    *.sh | *.bash | *.slurm | *.sbatch) if [ -r "$token" ]; then
      eval "function $token { bash $token \"\$@\"; }"
      return 0
    fi ;;
  esac
  if [ -x "$MILLRACE_PATH/${token##*/}" ]; then return 0; fi
  eval "function $token { __millrace_stub $token \"\$@\"; }"
  return 0
}

exit() {
  local status=$?
  __millrace_record exit "${BASH_LINENO[0]}" "${BASH_SOURCE[1]-}" "$BASH_SUBSHELL" "${1-$status}"
  builtin exit "${1-$status}"
}

__millrace_end() {
  local status=$1 line=$2
  if ((line == 1 && __millrace_last > 1)); then line=$__millrace_last; fi # of the trap itself
  __millrace_record end "$line" "$status" "$BASH_SUBSHELL" "$$"
  builtin wait
}

# Folders and files of another machine are taken for being there: where a script goes decides what its paths mean.
cd() {
  local to=${*: -1}
  builtin cd "$@" 2>/dev/null && return 0
  [ "$#" -gt 0 ] && [ "$to" != - ] || return 0
  OLDPWD=$PWD
  case $to in /*) PWD=$to ;; *) PWD=$PWD/$to ;; esac
  local -a matches=("${BASH_REMATCH[@]}")
  while [[ $PWD =~ ^(.*)/[^/]+/\.\.(/.*)?$ ]]; do PWD=${BASH_REMATCH[1]}${BASH_REMATCH[2]}; done
  while [[ $PWD =~ ^(.*)/\.(/.*)?$ ]]; do PWD=${BASH_REMATCH[1]}${BASH_REMATCH[2]}; done
  BASH_REMATCH=("${matches[@]}")
  PWD=${PWD%/}
  __millrace_record cd "${BASH_LINENO[0]}" "$PWD"
}
pwd() { printf '%s\n' "$PWD"; }
pushd() {
  __millrace_stack+=("$PWD")
  cd "${@: -1}"
}
popd() {
  local at=$((${#__millrace_stack[@]} - 1))
  if ((at >= 0)); then
    cd "${__millrace_stack[at]}"
    unset "__millrace_stack[at]"
  fi
}
__millrace_stack=()
source() {
  if [ -r "${1-}" ]; then builtin source "$@"; else __millrace_record missing "${BASH_LINENO[0]}" "${1-}"; fi
}
.() { source "$@"; }
ulimit() { :; }
tee() { builtin command cat; }
exec() {
  [ "$#" -gt 0 ] || return 0
  [ "$1" = -a ] && shift 2
  "$@"
  builtin exit "$?"
}
sleep() {
  __millrace_naps=$((__millrace_naps + 1))
  if ((__millrace_naps > 25)); then
    ((BASH_SUBSHELL == 0)) || builtin exit 0
    __millrace_record waits "${BASH_LINENO[0]}"
    builtin kill -TERM "$$"
  fi
  return 0
}
sh() { bash "$@"; }
date() {
  case " $* " in
    *" -d"* | *" --date"* | *" -r"* | *" --reference"*) command date "$@" ;;
    *) command date -d "@$MILLRACE_NOW" "$@" ;;
  esac
}
hostname() { if [ "$#" -eq 0 ] || [ "$1" = -s ]; then printf '%s\n' "$MILLRACE_HOST"; else __millrace_stub hostname "$@"; fi; }
whoami() { printf '%s\n' "${USER-user}"; }
mktemp() { printf '/tmp/tmp.%s\n' "${BASH_LINENO[0]}"; }
command() {
  if [ "${1-}" = -v ] || [ "${1-}" = -V ]; then
    if builtin command "$@" 2>/dev/null; then return 0; fi
    __millrace_call "${BASH_LINENO[0]}" "${BASH_SOURCE[1]-}" command "$@"
    [ "$MILLRACE_ANSWER" != absent ] || return 1
    printf '/usr/bin/%s\n' "$2"
    return 0
  fi
  if [ "${1-}" = date ]; then builtin command "$@"; else "$@"; fi
}
type() {
  builtin type "$@" 2>/dev/null && return 0
  __millrace_call "${BASH_LINENO[0]}" "${BASH_SOURCE[1]-}" type "$@"
  [ "$MILLRACE_ANSWER" != absent ]
}
hash() { case ${1-} in -*) ;; *) type "$@" >/dev/null ;; esac; }

trap '__millrace_end "$?" "$__millrace_at"' EXIT
trap '__millrace_before "$BASH_COMMAND" "$LINENO"' DEBUG
