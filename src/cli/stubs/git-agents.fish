# fish completion for git agents: 'git-agents.fish' in a directory of completions, or 'git agents shell-init fish'.

# The words from git's command on, git's own -C behind it; fails where the command is none of ours.
function __git_agents_words
    set -l words (commandline -opc)
    set -l dir
    if test "$words[1]" = git
        set -e words[1]
        while string match -q -- '-*' "$words[1]"
            switch "$words[1]"
                case -C
                    set -a dir -C "$words[2]"
                    set -e words[1..2]
                case -c --git-dir --work-tree --namespace
                    set -e words[1..2]
                case '*'
                    set -e words[1]
            end
        end
        set -q words[1]; or return 1
        if test "$words[1]" != agents
            # Asked once a shell.
            set -q __git_agents_aliases
            or set -g __git_agents_aliases (command git config --get-regexp '^alias\.' 2>/dev/null \
                | string replace -rf '^alias\.(\S+) (?:!git )?agents$' '$1')
            contains -- "$words[1]" $__git_agents_aliases; or return 1
        end
    end
    set -l name "$words[1]"
    set -e words[1]
    printf '%s\n' $name $dir $words
end

function __git_agents_are_meant
    __git_agents_words >/dev/null
end

function __git_agents_complete
    set -l words (__git_agents_words)
    command git-agents complete fish (count $words) $words (commandline -ct) 2>/dev/null
end

complete -c git-agents -f -a '(__git_agents_complete)'
complete -c agents -f -a '(__git_agents_complete)'
complete -c git -f -n __git_agents_are_meant -a '(__git_agents_complete)'
complete -c git -f -n 'functions -q __fish_git_needs_command; and __fish_git_needs_command' -a agents -d 'several AI coding assistants on one repository at once'
