# bash completion for git agents. Loaded as the file 'git-agents' of bash-completion, or by 'git agents shell-init bash'.
# git's own completion calls _git_agents for 'git agents', 'git -C DIR agents' and aliases.

# INDEX WORD...: asks the program and fills COMPREPLY. The program quotes, filters and adds the space.
__git_agents_reply() {
    local line cur=${!#}
    COMPREPLY=()
    # Readline replaces only what stands behind the last of these.
    local cut=
    case $cur in
        *=*) case $COMP_WORDBREAKS in *=*) cut=${cur%"${cur##*=}"} ;; esac ;;
        *:*) case $COMP_WORDBREAKS in *:*) cut=${cur%"${cur##*:}"} ;; esac ;;
    esac
    while IFS= read -r line; do
        if [ -n "$line" ]; then COMPREPLY+=("${line#"$cut"}"); fi
    done <<<"$(command git-agents complete bash "$@" 2>/dev/null)"
    # Otherwise the names of files would be offered where none are meant.
    compopt +o default +o bashdefault 2>/dev/null
    return 0
}

_git_agents() {
    local start=${__git_cmd_idx:-1}
    local -a dir=(${__git_C_args[@]+"${__git_C_args[@]}"})
    __git_agents_reply "$((cword - start + ${#dir[@]}))" agents ${dir[@]+"${dir[@]}"} \
        "${words[@]:start+1:cword-start}"
}

__git_agents_alone() {
    local cur prev words=("${COMP_WORDS[@]}") cword=$COMP_CWORD
    if declare -F _get_comp_words_by_ref >/dev/null; then
        _get_comp_words_by_ref -n =: cur prev words cword
    elif declare -F __git_get_comp_words_by_ref >/dev/null; then
        __git_get_comp_words_by_ref -n =: cur prev words cword
    fi
    __git_agents_reply "$cword" "${words[@]:0:cword+1}"
}

complete -o nospace -F __git_agents_alone git-agents agents
