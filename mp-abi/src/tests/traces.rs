//! What a trace says about calls.

use serde_json::{Value, json};

use super::*;
use crate::{
    calls::{communicators::*, grids::*},
    constants::{MPI_COMM_NULL, MPI_DATATYPE_NULL, MPI_ROOT},
    handles::Handles,
    ints::Ints,
    trace::{
        Argument,
        Given::{self, Buffer, Number, Numbers},
        facts::Facts,
    },
};

/// Returns what is said about a call with these arguments, on a communicator.
fn said(name: &'static str, comm: Handle, given: &[Argument]) -> Value {
    let given = [given, &[("comm", Given::Handle(comm))]].concat();
    // SAFETY: the tests give valid handles, and arrays of the right lengths.
    let text = unsafe { Facts::of(name, "collective", &given) }.text();
    let mut event: Value = serde_json::from_str(&text).unwrap();
    assert_eq!((&event["name"], &event["cat"]), (&name.into(), &"collective".into()));
    event["args"].take()
}

fn bytes(name: &'static str, comm: Handle, given: &[Argument]) -> Value {
    said(name, comm, given)["bytes"].clone()
}

/// Arguments that are not significant in a call: what is said of the call must not depend on them.
const NOTHING: [Argument; 6] = [
    ("sent_count", Number(-1)),
    ("sent_counts", Numbers(Ints::Small(null_mut()))),
    ("sent_type", Given::Handle(MPI_DATATYPE_NULL)),
    ("received_count", Number(-1)),
    ("received_counts", Numbers(Ints::Small(null_mut()))),
    ("received_type", Given::Handle(MPI_DATATYPE_NULL)),
];

/// Returns the arguments, and insignificant ones for what is sent or received if that is not among them.
fn with_nothing(given: &[Argument]) -> Vec<Argument> {
    let side = |name: &str| name.split('_').next().unwrap_or_default().to_owned();
    let is_missing = |one: &&Argument| given.iter().all(|(name, _)| side(name) != side(one.0));
    given.iter().chain(NOTHING.iter().filter(is_missing)).copied().collect()
}

#[test]
fn bytes_of_collective_operations_are_what_the_rank_has() {
    on_ranks(3, |comm, me, size| {
        let (int, double) = (Given::Handle(predefined(INT)), Given::Handle(predefined(DOUBLE)));
        let sent = |at: *mut c_void| [("sent", Buffer(at)), ("received", Buffer(null_mut()))];
        let [plain, in_place] = [null_mut(), in_place()].map(sent);
        let counts = [1, 2, 3];
        let many = Numbers(Ints::Small(counts.as_ptr()));
        let types = [predefined(INT), predefined(DOUBLE), predefined(INT)];
        let types = Given::Handles(Handles::Array(types.as_ptr()));
        let root = ("root", Number(1));
        let of = |name, buffers: [Argument; 2], more: &[Argument]| {
            bytes(name, comm, &[&buffers, &*with_nothing(more)].concat())
        };

        let vector = [("count", Number(5)), ("datatype", int)];
        for name in ["MPI_Reduce", "MPI_Allreduce_c", "MPI_Iscan", "MPI_Exscan_init", "MPI_Bcast"] {
            assert_eq!(bytes(name, comm, &[&plain[..], &vector, &[root]].concat()), 20, "{name}");
        }
        for name in ["MPI_Reduce_scatter_block", "MPI_Ireduce_scatter_block"] {
            assert_eq!(bytes(name, comm, &[&plain[..], &vector].concat()), 60, "{name}");
        }
        let vector = [("counts", many), ("datatype", int)];
        assert_eq!(bytes("MPI_Reduce_scatter", comm, &[&plain[..], &vector].concat()), 24);

        let given = [("sent_count", Number(3)), ("sent_type", double)];
        for name in ["MPI_Allgather", "MPI_Igather", "MPI_Allgatherv_c", "MPI_Gatherv_init"] {
            assert_eq!(of(name, plain, &given), 24, "{name}");
        }
        assert_eq!(of("MPI_Alltoall", plain, &given), 24 * size);
        let taken = [("received_count", Number(3)), ("received_type", double)];
        assert_eq!(of("MPI_Allgather", in_place, &taken), 24);
        assert_eq!(of("MPI_Alltoall", in_place, &taken), 24 * size);
        let taken = [("received_counts", many), ("received_type", double)];
        assert_eq!(of("MPI_Allgatherv", in_place, &taken), 8 * (me + 1));
        assert_eq!(of("MPI_Alltoallv", in_place, &taken), 48);
        let given = [("sent_counts", many), ("sent_type", double)];
        assert_eq!(of("MPI_Ialltoallv", plain, &given), 48);
        let given = [("sent_counts", many), ("sent_types", types)];
        assert_eq!(of("MPI_Alltoallw", plain, &given), 4 + 16 + 12);

        // A scatter gives each rank something, the root only if it does not keep it where it is.
        let taken = [("received_count", Number(2)), ("received_type", double), root];
        assert_eq!(of("MPI_Scatter", plain, &taken), 16);
        assert_eq!(of("MPI_Scatterv", plain, &taken), 16);
        if me == 1 {
            let kept = [("sent", Buffer(null_mut())), ("received", in_place[0].1)];
            let given = [("sent_counts", many), ("sent_type", int), root];
            assert_eq!(of("MPI_Scatterv", kept, &given), 8);
        }
    });
}

#[test]
fn neighbours_get_what_is_sent_to_each() {
    on_ranks(2, |comm, _, _| {
        let mut grid = null_mut();
        ok!(cart_create(comm, 1, [2].as_ptr(), [0].as_ptr(), 0, &mut grid));
        let given = [
            ("sent", Buffer(null_mut())),
            ("sent_count", Number(3)),
            ("sent_type", Given::Handle(predefined(INT))),
        ];
        // Each rank has two neighbours. At the border, one of them is `MPI_PROC_NULL`, and counts as well.
        assert_eq!(bytes("MPI_Neighbor_alltoall", grid, &given), 24);
        assert_eq!(bytes("MPI_Ineighbor_allgather", grid, &given), 12);
        ok!(comm_free(&mut grid));
    });
}

#[test]
fn ranks_are_those_of_the_world() {
    on_ranks(5, |world, me, _| {
        let sides = Sides::new(world, 2, true);
        let root = |root: c_int| {
            let given = [
                ("count", Number(1)),
                ("datatype", Given::Handle(predefined(INT))),
                ("root", Number(root.into())),
            ];
            said("MPI_Bcast", sides.inter, &given)
        };
        let in_world = sides.others[0];
        assert_eq!((&root(0)["root"], &root(0)["bytes"]), (&in_world.into(), &4.into()));
        assert_eq!((&root(MPI_ROOT)["root"], &root(MPI_ROOT)["bytes"]), (&me.into(), &4.into()));
        let nothing = root(NOBODY);
        assert_eq!((&nothing["root"], &nothing["bytes"]), (&"none".into(), &Value::Null));
        // The root of a gather gives nothing.
        let given = [
            ("sent", Buffer(null_mut())),
            ("sent_count", Number(1)),
            ("sent_type", Given::Handle(predefined(INT))),
            ("root", Number(MPI_ROOT.into())),
        ];
        assert_eq!(bytes("MPI_Gather", sides.inter, &given), Value::Null);

        let message = |to: c_int, tag: c_int| {
            let ways = [("source", Number(to.into())), ("tag", Number(tag.into()))];
            said("MPI_Irecv", sides.inter, &ways)
        };
        let found = message(sides.remote as c_int - 1, 3);
        assert_eq!(
            (&found["from"], &found["tag"]),
            (&sides.others[sides.remote - 1].into(), &3.into())
        );
        let found = message(ANY, ANY_TAG);
        assert_eq!((&found["from"], &found["tag"]), (&"any".into(), &"any".into()));
        assert_eq!(message(NOBODY, 0)["from"], "none");
        // The call itself says that there is no such rank.
        assert_eq!(message(sides.remote as c_int, 0)["from"], Value::Null);
        assert_eq!(said("MPI_Irecv", MPI_COMM_NULL, &[("source", Number(0))]), json!({}));
        let mut inter = sides.inter;
        ok!(comm_free(&mut inter));
    });
}

#[test]
fn long_names_do_not_make_a_call_too_long() {
    on_ranks(1, |comm, _, _| {
        ok!(comm_set_name(comm, c"\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01".as_ptr()));
        let given = [("to", Number(0)), ("tag", Number(1 << 30))];
        let found = said("MPI_Isendrecv_replace_c", comm, &given);
        assert_eq!(found, json!({ "to": 0, "tag": 1 << 30, "ranks": 1 }));
        ok!(comm_set_name(comm, c"\"é\"".as_ptr()));
        assert_eq!(said("MPI_Send", comm, &given)["comm"], "\"é\"");
    });
}
