(( $+functions[_shedlock_names] )) ||
_shedlock_names() {
    local -a names
    names=(${(f)"$(command shedlock @WORD@ "${(Q)PREFIX}" "${(@Q)${(@z)LBUFFER}}" 2>/dev/null)"})
    compadd -a names
}
