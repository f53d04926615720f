# Read by the scripts beside it: sets OTTLA, the program that they all run.
#
# First found wins: $OTTLA_BIN, what cargo built (release before debug), an `ottla` beside bin/ or in it, as in a release archive.

home=$(dirname -- "$(dirname -- "$(readlink -f -- "$0")")")

for OTTLA in "${OTTLA_BIN:-}" "$home/target/release/ottla" "$home/target/debug/ottla" "$home/ottla" "$home/bin/ottla"; do
    if [ -f "$OTTLA" ] && [ -x "$OTTLA" ]; then
        break
    elif [ -n "${OTTLA_BIN:-}" ]; then
        echo "OTTLA_BIN names $OTTLA_BIN, which is not a program that can be run." >&2
        exit 1
    fi
    OTTLA=
done
if [ -z "$OTTLA" ]; then
    cat >&2 <<MESSAGE
The program is not built yet: no ottla in $home/target/release, $home/target/debug or $home.
Build it with:  cd $home && cargo build --release
or name one with the environment variable OTTLA_BIN.
MESSAGE
    exit 1
fi
