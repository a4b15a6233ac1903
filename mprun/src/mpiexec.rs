//! The command line of `mpiexec` and `mpirun`: what scripts that start MPI programs write, as arguments of `mprun`.
//!
//! `mprun` that is called by one of these names reads the options that the launchers of MPICH and Open MPI have in
//! common. What concerns several machines or the placement of ranks has no effect.

use std::{ffi::OsString, path::Path};

/// What becomes of an option of `mpiexec`.
enum Meaning {
    /// The number of ranks follows.
    Ranks,
    /// The folder follows in which the program runs.
    Folder,
    /// A variable and its value follow.
    Variable,
    /// `NAME=VALUE` follows, or the name of a variable, which the ranks have anyway.
    Exported,
    /// Ranks' numbers before their lines.
    Tags,
    /// An option of `mprun`, with a value.
    Own,
    /// It has no effect, nor have so many arguments after it.
    Nothing(usize),
}

fn meaning(option: &str) -> Option<Meaning> {
    Some(match option {
        "-n" | "-np" | "--np" | "-c" => Meaning::Ranks,
        "-wdir" | "--wdir" | "-wd" => Meaning::Folder,
        "-genv" | "-env" => Meaning::Variable,
        "-x" => Meaning::Exported,
        "-l" | "-prepend-rank" | "--tag-output" => Meaning::Tags,
        "--bind" | "--timeout" | "--grace" | "--wait" | "--segment-size" | "--spare"
        | "--trace" => Meaning::Own,
        "--oversubscribe" | "-oversubscribe" | "--allow-run-as-root" | "-genvall" | "-envall" => {
            Meaning::Nothing(0)
        }
        "-host" | "--host" | "-H" | "-hosts" | "-hostfile" | "--hostfile" | "-machinefile"
        | "-f" | "-ppn" | "-launcher" | "-bind-to" | "--bind-to" | "-map-by" | "--map-by"
        | "-rank-by" | "--rank-by" => Meaning::Nothing(1),
        "-mca" | "--mca" => Meaning::Nothing(2),
        _ => return None,
    })
}

/// Returns the arguments of `mprun`, with its name, for those of a program of this or another name.
///
/// # Errors
/// What is wrong with the arguments, if `mpiexec` would understand them and this can't.
pub fn translated(args: impl IntoIterator<Item = OsString>) -> Result<Vec<OsString>, String> {
    let mut args = args.into_iter();
    let name = args.next().unwrap_or_default();
    let file = Path::new(&name).file_name().unwrap_or_default().to_owned();
    if file != "mpiexec" && file != "mpirun" {
        return Ok(std::iter::once(name).chain(args).collect());
    }
    let mut all = vec![name];
    let mut environment: Vec<OsString> = Vec::new();
    let mut command: Vec<OsString> = Vec::new();
    while let Some(arg) = args.next() {
        let text = arg.to_str().unwrap_or_default().to_owned();
        if !text.starts_with('-') {
            command.push(arg);
            command.extend(args.by_ref());
            break;
        }
        let mut value = || args.next().ok_or_else(|| format!("nothing follows after {text}"));
        match meaning(&text) {
            Some(Meaning::Ranks) => all.extend(["-n".into(), value()?]),
            Some(Meaning::Folder) => {
                environment.splice(0..0, ["-C".into(), value()?]).for_each(drop)
            }
            Some(Meaning::Variable) => {
                let mut pair = value()?;
                pair.push("=");
                pair.push(value()?);
                environment.push(pair);
            }
            Some(Meaning::Exported) => {
                let pair = value()?;
                if pair.to_str().is_some_and(|pair| pair.contains('=')) {
                    environment.push(pair);
                }
            }
            Some(Meaning::Tags) => all.push("--tag-output".into()),
            Some(Meaning::Own) => all.extend([arg, value()?]),
            Some(Meaning::Nothing(count)) => {
                for _ in 0..count {
                    value()?;
                }
            }
            None => all.push(arg),
        }
    }
    if command.iter().any(|arg| arg == ":") {
        return Err(
            "several programs (with \":\" between them) can't be the ranks of one world".to_owned()
        );
    }
    if !command.is_empty() {
        all.push("--".into());
        if !environment.is_empty() {
            all.push("env".into());
            all.extend(environment);
        }
        all.extend(command);
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(line: &str) -> Result<String, String> {
        let all = translated(line.split(' ').map(OsString::from))?;
        Ok(all.iter().map(|arg| arg.to_string_lossy()).collect::<Vec<_>>().join(" "))
    }

    #[test]
    fn options_of_other_launchers_are_those_of_mprun() {
        for (line, expected) in [
            ("mprun -n 2 prog -np 3", "mprun -n 2 prog -np 3"),
            ("/usr/bin/mpiexec -n 2 prog a", "/usr/bin/mpiexec -n 2 -- prog a"),
            (
                "mpirun -np 4 --oversubscribe --allow-run-as-root ./prog -n 7",
                "mpirun -n 4 -- ./prog -n 7",
            ),
            ("mpiexec -hosts localhost -ppn 2 --mca btl self -c 3 prog", "mpiexec -n 3 -- prog"),
            (
                "mpiexec -genv A 1 -x B=2 -x HOME -wdir /tmp -n 1 prog",
                "mpiexec -n 1 -- env -C /tmp A=1 B=2 prog",
            ),
            ("mpiexec -l --timeout 5 prog", "mpiexec --tag-output --timeout 5 -- prog"),
            ("mpiexec --trace a.svg prog", "mpiexec --trace a.svg -- prog"),
            ("mpiexec --help", "mpiexec --help"),
        ] {
            assert_eq!(of(line).as_deref(), Ok(expected), "{line}");
        }
        assert!(of("mpiexec -n 1 one : -n 2 two").is_err());
        assert!(of("mpiexec -n").is_err());
    }
}
