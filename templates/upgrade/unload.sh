# Takes the driver's modules out of the kernel, in order, never by force. Needs holders.sh.
_modules=$_state/upgrade-modules

# unload PATIENCE MODULE...: waits PATIENCE seconds for processes that are about to end. Nothing is taken out while
# somebody holds a card; what was loaded is remembered, so that the same comes back.
unload() {
    _patience=$1; shift
    { [ ! -e "$_modules" ] || cat "$_modules"
      for _m in "$@"; do [ ! -d "/sys/module/$_m" ] || printf '%s\n' "$_m"; done; } |
        awk '$0 != "" && !seen[$0]++' >"$_dir/modules"
    keep "$_modules" <"$_dir/modules"
    while [ -n "$(holding)" ] && [ "$_patience" -gt 0 ]; do _patience=$((_patience - 1)); sleep 1; done
    if [ -n "$(holding)" ] || foreign "$@"; then tell result busy ''; tell_holders; return; fi
    for _m in "$@"; do
        [ -d "/sys/module/$_m" ] || continue
        while
            _count=0; [ ! -r "/sys/module/$_m/refcnt" ] || read -r _count <"/sys/module/$_m/refcnt"
            [ "$_count" != 0 ] && [ "$_patience" -gt 0 ]
        do _patience=$((_patience - 1)); sleep 1; done
        # Any nvidia-smi that root runs puts it back at once: taken out again, a few times.
        _again=4
        while bounded 60 rmmod "$_m" >"$_dir/out" 2>&1 && [ -d "/sys/module/$_m" ] && [ "$_again" -gt 0 ]
        do _again=$((_again - 1)); done
        if [ ! -d "/sys/module/$_m" ]; then
            tell unloaded "$_m"
        else
            [ -s "$_dir/out" ] || echo 'it is loaded again, busy, whenever it was taken out' >"$_dir/out"
            case $(cat "$_dir/out") in
            *'in use'* | *'busy'*) tell result busy "$(end_of 2 "$_dir/out")" ;;
            *) tell result failed "rmmod $_m: $(end_of 2 "$_dir/out")" ;;
            esac
            tell_holders
            return
        fi
    done
    tell result ok ''
}
# foreign MODULE...: does a module that isn't one of these use them? It belongs to somebody else.
foreign() {
    for _m in "$@"; do
        for _h in "/sys/module/$_m/holders"/*; do
            [ -e "$_h" ] || [ -L "$_h" ] || continue
            case " $* " in *" ${_h##*/} "*) ;; *) return 0 ;; esac
        done
    done
    return 1
}
