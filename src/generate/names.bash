# Completes the words that the command line fixes, then the names of locks and the beginnings of backends' URLs.
_shedlock() {
    __shedlock_words "$@"
    local cur="$2" prev="$3" beginning quoted="" asked=@WORD@ name i
    local -a words=() names=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        [[ "${COMP_WORDS[i]}" == -- ]] || continue
        # What follows is completed as it would be without shedlock: by bash-completion, or else as a command and files.
        COMPREPLY=()
        if declare -F _command_offset >/dev/null; then
            _command_offset $((i + 1))
        elif [[ $((i + 1)) -eq ${COMP_CWORD} ]]; then
            while IFS= read -r name; do COMPREPLY+=("${name}"); done < <(compgen -c -- "${cur}" | sort -u)
        elif [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
            compopt -o default
        fi
        return 0
    done
    # Bash takes the `=` of --name=NAME for a word.
    [[ "${cur}" != "=" ]] || cur=""
    [[ "${prev}" != "=" ]] || prev="${COMP_WORDS[COMP_CWORD - 2]}"
    case "${COMP_WORDS[1]},${prev}" in
        run,--name | acquire,--name) ;;
        *,--backend) asked=@BACKENDS@ ;;
        *,@VALUED@) return 0 ;;
        @NAMING@) [[ ${COMP_CWORD} -ge 2 && "${cur}" != -* ]] || return 0 ;;
        *) return 0 ;;
    esac
    beginning="${cur//\\/}"
    beginning="${beginning#[\'\"]}"
    # Within quotes a name is offered only if it means the same there.
    [[ "${COMP_WORDS[COMP_CWORD]}" != [\'\"]* ]] || quoted=yes
    IFS=$' \t' read -ra words <<<"${COMP_LINE:0:COMP_POINT}"
    while IFS= read -r name; do
        case "${quoted}:${name}" in
            yes:*[\'\"\`\$\\!]*) continue ;;
            yes:*) ;;
            *) printf -v name %q "${name}" ;;
        esac
        names+=("${name}")
    done < <("$1" "${asked}" "${beginning}" "${words[@]}" 2>/dev/null)
    if [[ ${#names[@]} -gt 0 ]]; then
        COMPREPLY=("${names[@]}")
        if [[ "${BASH_VERSINFO[0]}" -ge 4 ]]; then
            compopt +o nospace
        fi
    fi
}
