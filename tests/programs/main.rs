//! The examples `lru_server`, `friends_server`, `script` and `graph_db`, compiled into this test: what they print, in ordinary worlds, and in small paranoid
//! worlds that collect each time 64 KiB were allocated, under each stopper; and what they answer to mistakes of their users.

#[path = "../../examples/friends_server.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod friends_server;
#[path = "../../examples/graph_db.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod graph_db;
#[path = "../hazard/mod.rs"]
mod hazard;
#[path = "../../examples/lru_server.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod lru_server;
#[path = "../../examples/script/main.rs"]
#[allow(dead_code, reason = "its main function is the example's")]
mod script;

use std::io::{self, BufReader, Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use hazard::By;
use rstest::rstest;
use stopworld::debugger::mock::MockDebugger;
use stopworld::{Stopper, World, WorldBuilder};

/// A world for one of these programs. Without a stopper: as the programs make it.
fn builder(by: Option<By>) -> WorldBuilder {
    let Some(by) = by else { return World::builder().heap_limit(256 << 20) };
    let small = hazard::builder().collect_every(64 << 10);
    match by {
        By::Signals => small,
        By::Safepoints => small.stopper(Stopper::Safepoints),
        By::Debugger => small.before_first_event(|world| {
            world.set_thread_vtable(MockDebugger::new().unwrap()).unwrap();
            Ok(())
        }),
    }
}

const GRAPH: &str = "\
# All mathematicians; then all papers of a year.
match person field=mathematics
  ada born=1815 field=mathematics
  charles born=1791 field=mathematics
match paper year=1843
  notes year=1843
  draft year=1843
path mary loom
  mary -teaches-> ada -knows-> charles -designed-> engine -inspired-by-> loom
path loom mary
  no path from loom to mary
count
  8 names, 8 nodes, 20 index entries
# Without its name, the draft is unreachable. The notes are not: ada wrote them. Two machines are still in use.
match paper year=1843
  notes year=1843
match machine
  engine material=brass
  loom material=wood
count
  4 names, 7 nodes, 18 index entries
# Mary and ada refer to each other; that does not keep them alive.
match person
  charles born=1791 field=mathematics
  joseph born=1752 field=weaving
match paper
path charles joseph
  no path from charles to joseph
edges charles
  charles -designed-> engine
count
  2 names, 4 nodes, 10 index entries
";

const SCRIPT: &str = "\
counters: 3 20
fib: [0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144, 233, 377, 610]
sum of squares: 2666466670000
ring: abca
{name: a, next: {name: b, next: {name: c, next: …}}}
sum of digits: 44 in 11 steps
queens: [2, 10, 4]
";

const SESSION: &str = "\
SET one 1    -> STORED
SET two 2    -> STORED
SET three 3  -> STORED
GET one      -> VALUE 1
SET four 4   -> STORED
GET two      -> MISSING
SET one uno  -> STORED
GET one      -> VALUE uno
DEL three    -> DELETED
DEL three    -> MISSING
GET          -> ERROR GET needs a key
FLUSH all    -> ERROR \"FLUSH\" with \"all\": not GET KEY, SET KEY VALUE, DEL KEY, STATS or QUIT
1 client, 400 requests: 0 wrong replies
3 clients at once, 400 requests each: 0 wrong replies
";

#[rstest]
fn the_graph_database_finds_what_is_reachable(
    #[values(None, Some(By::Signals), Some(By::Safepoints), Some(By::Debugger))] by: Option<By>,
) {
    let mut out = Vec::new();
    graph_db::run(builder(by), &mut graph_db::TOUR.as_bytes(), &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), GRAPH);
}

/// Commands, before each part of which a world is collected on another thread.
struct Collecting {
    world: Arc<OnceLock<World>>,
    commands: &'static [u8],
}

impl Read for Collecting {
    fn read(&mut self, part: &mut [u8]) -> io::Result<usize> {
        let collect = || self.world.get().unwrap().collect();
        std::thread::scope(|threads| threads.spawn(collect).join().unwrap()).map_err(io::Error::other)?;
        self.commands.read(part)
    }
}

#[test]
fn no_collection_waits_for_a_command_of_the_graph_database() {
    let world = Arc::new(OnceLock::new());
    let created = Arc::clone(&world);
    let builder = World::builder().stopper(Stopper::Safepoints).before_first_event(move |world| {
        created.set(world.clone()).ok();
        Ok(())
    });
    let mut out = Vec::new();
    graph_db::run(builder, &mut BufReader::new(Collecting { world, commands: graph_db::TOUR.as_bytes() }), &mut out)
        .unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), GRAPH);
}

#[rstest]
fn the_interpreter_runs_its_tour(
    #[values(None, Some(By::Signals), Some(By::Safepoints), Some(By::Debugger))] by: Option<By>,
) {
    let mut out = Vec::new();
    script::run(builder(by), script::TOUR, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), SCRIPT);
}

#[rstest]
fn the_cache_server_tests_itself(
    #[values(None, Some(By::Signals), Some(By::Safepoints), Some(By::Debugger))] by: Option<By>,
) {
    let mut out = Vec::new();
    lru_server::self_test(&builder(by).build().unwrap(), 3, 400, &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), SESSION);
}

const FRIENDS: &str = r#"PUT /people/ada -> 201
PUT /people/bob -> 201
PUT /people/bob -> 200
PUT /people/eve -> 201
PUT /friends/ada/bob -> 204
PUT /friends/bob/eve -> 204
GET /people/bob -> 200 {"name":"bob","friends":["ada","eve"]}
GET /path/ada/eve -> 200 ["ada","bob","eve"]
GET /people/mallory -> 404 mallory is not known
GET /state -> 200 {"root":{"ada":{"object":[0,{"name":"ada","friends":2346441946}]},"bob":{"object":[1,{"name":"bob","friends":2346441946}]},"eve":{"object":[2,{"name":"eve","friends":2346441946}]}},"then":[[{"same":1}],[{"same":0},{"same":2}],[{"same":1}]]}
DELETE /people/bob -> 204
GET /path/ada/eve -> 200 []
4 of 4 clients have found the path
restored: 204, and the state is the same
states that are none: 400 the state cannot be read: missing field `root` at line 1 column 2; 400 the state is inconsistent: x has the name y
"#;

/// Its idle threads wait in the kernel and reach no safepoint.
#[rstest]
fn the_server_of_friends_tests_itself(#[values(None, Some(By::Signals), Some(By::Debugger))] by: Option<By>) {
    let mut out = Vec::new();
    friends_server::run(&builder(by).build().unwrap(), &[], &mut out).unwrap();
    assert_eq!(String::from_utf8(out).unwrap(), FRIENDS);
}

#[rstest]
#[case(&["serve"], "usage: friends_server [serve PORT]")]
#[case(&["serve", "many"], "usage: friends_server [serve PORT]")]
fn wrong_arguments_of_the_server_of_friends(#[case] arguments: &[&str], #[case] message: &str) {
    let error = friends_server::run(&builder(None).build().unwrap(), arguments, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), message);
}

#[rstest]
#[case("let x = ;", "line 1: found ;, expected a name")]
#[case("let x = (1 +", "the program ends where a name is expected")]
#[case("\n\nprint(\"abc", "line 3: a string without an end")]
#[case("1 = 2", "only a variable, an element or a field can be assigned to")]
#[case("x + 1", "there is no variable x")]
#[case("[1, 2][2]", "the array has no element 2")]
#[case("[1, 2][0 - 1]", "the array has no element -1")]
#[case("[1, 2][1 / 2]", "the array has no element 0.5")]
#[case("[1, 2][0 / 0]", "the array has no element NaN")]
#[case("[1, 2][1 / 0]", "the array has no element inf")]
#[case("let a = [1, 2]; a[0 - 1] = 3", "the array has no element -1")]
#[case("let a = [1, 2]; a[1 / 2] = 3", "the array has no element 0.5")]
#[case("null.field", "null[field]")]
#[case("{k: 1} < [2]", "Lt of {k: 1} and [2]")]
#[case("(fn(a, b) a)(1)", "function called with 1 arguments")]
#[case("let f = fn(a) a; f()", "function called with 0 arguments")]
#[case("len(7)", "Len has other arguments")]
#[case("let f = fn(n) { f(n + 1) }; f(0)", "calls are nested more than 2000 deep")]
#[case("let all = []; while (true) push(all, [all])", "heap")]
fn the_interpreter_names_the_mistake(#[case] program: &str, #[case] message: &str) {
    let error = script::run(World::builder().heap_limit(4 << 20), program, &mut Vec::new()).unwrap_err().to_string();
    assert!(error.contains(message), "{error}");
}

#[rstest]
#[case("(")]
#[case("[")]
#[case("-")]
#[case("a=")]
#[case("let a=")]
#[case("fn()")]
fn the_parser_refuses_deep_nesting(#[case] nested: &str) {
    let program = nested.repeat(1_000_000);
    let error = script::run(builder(None), &program, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "the program is nested more than 2000 deep");
}

#[rstest]
#[case("node a", "line 1: node a: not a command")]
#[case("node a b\nnode c d e", "line 2: node c d e: e is not KEY=VALUE")]
#[case("node a b\nedge a to c", "line 2: edge a to c: no node is named c")]
#[case("node a b\n\ncollect\nforget c", "line 4: forget c: no node is named c")]
fn the_graph_database_names_the_mistake(#[case] commands: &str, #[case] message: &str) {
    let error = graph_db::run(builder(None), &mut commands.as_bytes(), &mut Vec::new()).unwrap_err().to_string();
    assert!(error.starts_with(message), "{error}");
}

#[rstest]
#[case(&["--help"], 0)]
#[case(&["--version"], 2)]
#[case(&["Cargo.toml", "more"], 2)]
fn the_database_and_the_interpreter_explain_their_use(#[case] arguments: &[&str], #[case] status: u8) {
    let (mut database, mut interpreter) = (Vec::new(), Vec::new());
    assert_eq!(graph_db::start(builder(None), arguments, &mut database).unwrap(), status);
    assert_eq!(script::start(builder(None), arguments, &mut interpreter).unwrap(), status);
    let expected = if status == 0 { ["usage: graph_db [FILE | -]\n", "usage: script [FILE]\n"] } else { [""; 2] };
    assert_eq!([database, interpreter].map(|out| String::from_utf8(out).unwrap()), expected);
}

/// Sends `requests`, ends that direction, and returns all replies of a server, whose listener first fails.
fn replies(world: &World, shared: &lru_server::Shared, requests: &'static [u8]) -> String {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let address = listener.local_addr().unwrap();
    let client = std::thread::spawn(move || {
        let mut client = TcpStream::connect(address).unwrap();
        client.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        client.write_all(requests).unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        let mut replies = String::new();
        client.read_to_string(&mut replies).unwrap();
        replies
    });
    let failures = [libc::ECONNABORTED, libc::EMFILE].map(|error| Err(io::Error::from_raw_os_error(error)));
    lru_server::accept(world, failures.into_iter().chain(listener.incoming().take(1)), shared).unwrap();
    client.join().unwrap()
}

#[test]
fn the_cache_server_executes_whole_lines_of_text_only() {
    let world = builder(None).build().unwrap();
    let shared = lru_server::cache(&world, 3).unwrap();
    assert_eq!(
        replies(&world, &shared, b"SET k \xff\nGET k\r\nSET k old\nSET k cut"),
        "ERROR the line is not UTF-8: invalid utf-8 sequence of 1 bytes from index 6\nMISSING\nSTORED\n"
    );
    assert_eq!(replies(&world, &shared, b"GET k\nQUIT\n"), "VALUE old\n");
    assert_eq!(replies(&world, &shared, &[b'x'; 64 << 10]), "ERROR a line is longer than 65536 bytes\n");
}

#[rstest]
#[case(&["server"])]
#[case(&["serve", "http"])]
#[case(&["serve", "0", "many"])]
fn the_cache_server_explains_its_use(#[case] arguments: &[&str]) {
    let error = lru_server::run(builder(None), arguments, &mut Vec::new()).unwrap_err();
    assert_eq!(error.to_string(), "usage: lru_server [serve PORT [ENTRIES] | client PORT]");
}
