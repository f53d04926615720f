# Read by the start and stop scripts beside it: one server in the foreground or, after -daemon, in the background; and the search
# for those that run.

# start_server SUBCOMMAND NAME ARGUMENTS...   takes the place of the shell, so that the process is the server and its command line
# names the properties file. With daemon=1 it stays behind in the background instead, its output in $LOG_DIR/NAME.out.
start_server() {
    subcommand=$1
    name=$2
    shift 2
    LOG_DIR=${LOG_DIR:-$home/logs}
    export LOG_DIR
    [ -n "${daemon:-}" ] || exec "$OTTLA" "$subcommand" "$@"
    mkdir -p "$LOG_DIR" || exit 1
    nohup "$OTTLA" "$subcommand" "$@" >"$LOG_DIR/$name.out" 2>&1 </dev/null &
}

# server_pids SUBCOMMAND   prints the process id of each `ottla SUBCOMMAND`, and of nothing that merely mentions those words.
server_pids() {
    if [ -r /proc/self/cmdline ]; then
        for process in /proc/[0-9]*; do
            # It may end between the listing and the reading.
            { read -r program <"$process/comm"; } 2>/dev/null || continue
            case $program in ottla*) ;; *) continue ;; esac
            [ "$(tr '\0' '\n' <"$process/cmdline" 2>/dev/null | sed -n 2p)" = "$1" ] && echo "${process#/proc/}"
        done
    else
        ps -ax -o pid= -o comm= -o args= | awk -v subcommand="$1" '$2 ~ /(^|\/)ottla[^\/]*$/ && $4 == subcommand { print $1 }'
    fi
}
