//! A web server on the loopback interface with collected state, written with tokio, axum and serde: people and their friends.
//!
//!     cargo run --release --example friends_server                test itself, with four clients at once
//!     cargo run --release --example friends_server -- serve 7080  serve
//!
//!     curl -X PUT localhost:7080/people/ada             a new person
//!     curl -X PUT localhost:7080/friends/ada/bob        ada and bob are friends
//!     curl localhost:7080/people/ada                    {"name":"ada","friends":["bob"]}
//!     curl localhost:7080/path/ada/eve                  how they know each other: ["ada","bob","eve"]
//!     curl -X DELETE localhost:7080/people/ada          forgets a person
//!     curl localhost:7080/state > friends.json          saves the whole state
//!     curl -T friends.json localhost:7080/state         restores it
//!
//! What to look at: each worker thread of tokio is attached to the world once, when it starts (`runtime`). A handler is an async function that
//! calls `collected` with ordinary code. In it a `Gc` is a local variable. A future cannot contain one between two `await`s: its memory is
//! not scanned; and the compiler refuses it, because tokio may continue the future on another thread, and a `Gc` is not `Send`. What futures
//! share is a `Root`. The state is a cyclic graph; serde writes it as it is (`stopworld::serde::Graph`).

use std::cell::RefCell;
use std::error::Error;
use std::future::Future;
use std::io::{self, Write};
use std::net::Ipv4Addr;

use axum::Router;
use axum::extract::{DefaultBodyLimit, Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, put};
use serde::{Deserialize, Serialize};
use stopworld::serde::{Graph, with_mutator};
use stopworld::{ByAddress, Gc, GcDeque, GcHashMap, GcMutex, GcVec, Mutator, OutOfMemory, Root, Trace, World};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;

/// The largest state that is restored, in bytes.
const LARGEST_STATE: usize = 256 << 20;
const USAGE: &str = "usage: friends_server [serve PORT]";

#[derive(Trace, Serialize, Deserialize)]
struct Person {
    name: Gc<str>,
    friends: GcMutex<GcVec<Gc<Person>>>,
}

/// Everyone by name.
type People = GcMutex<GcHashMap<Gc<str>, Gc<Person>>>;

/// The answer about one person.
#[derive(Serialize)]
struct Profile {
    name: Gc<str>,
    friends: GcVec<Gc<str>>,
}

thread_local! {
    /// The mutator of a worker thread.
    static MUTATOR: RefCell<Option<Mutator>> = const { RefCell::new(None) };
}

/// Starts a runtime whose threads are attached to the world.
pub fn runtime(world: &World, threads: usize) -> io::Result<Runtime> {
    let world = world.clone();
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .thread_name("friends")
        .enable_io()
        .on_thread_start(move || {
            // SAFETY: these threads keep every `Gc` in local variables of functions that `collected` calls, in collected objects and in `Root`s.
            let mutator = unsafe { world.attach("worker") };
            MUTATOR.set(Some(mutator.expect("a worker is attached to no other world")));
        })
        .on_thread_stop(|| MUTATOR.set(None))
        .build()
}

/// Calls `body` with the mutator of this worker thread.
fn collected<R>(body: impl FnOnce(&Mutator) -> R) -> R {
    MUTATOR.with_borrow(|mutator| body(mutator.as_ref().expect("only tasks of the runtime use collected objects")))
}

/// What is answered instead of a result.
enum Refusal {
    Unknown(String),
    Malformed(serde_json::Error),
    Inconsistent(String),
    Full(OutOfMemory),
}

impl From<OutOfMemory> for Refusal {
    fn from(full: OutOfMemory) -> Self {
        Refusal::Full(full)
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        match self {
            Refusal::Unknown(name) => (StatusCode::NOT_FOUND, format!("{name} is not known\n")),
            Refusal::Malformed(error) => (StatusCode::BAD_REQUEST, format!("the state cannot be read: {error}\n")),
            Refusal::Inconsistent(what) => (StatusCode::BAD_REQUEST, format!("the state is inconsistent: {what}\n")),
            Refusal::Full(full) => (StatusCode::INSUFFICIENT_STORAGE, format!("{full}\n")),
        }
        .into_response()
    }
}

fn json(value: &impl Serialize) -> Response {
    match serde_json::to_string(value) {
        Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text + "\n").into_response(),
        Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")).into_response(),
    }
}

fn person(m: &Mutator, people: Gc<People>, name: &str) -> Result<Gc<Person>, Refusal> {
    people.lock(m).get(name).copied().ok_or_else(|| Refusal::Unknown(name.to_owned()))
}

type Shared = State<Root<People>>;

async fn add(State(people): Shared, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    collected(|m| {
        let person = Person { name: m.alloc_str(&name)?, friends: GcMutex::default() };
        let person = m.alloc(person)?;
        let people = people.get(m);
        let mut people = people.lock(m);
        if people.contains_key(&*name) {
            return Ok(StatusCode::OK);
        }
        people.insert(m, person.name, person)?;
        Ok(StatusCode::CREATED)
    })
}

async fn show(State(people): Shared, Path(name): Path<String>) -> Result<Response, Refusal> {
    collected(|m| {
        let person = person(m, people.get(m), &name)?;
        let friends = GcVec::from_iter(m, person.friends.lock(m).iter().map(|friend| friend.name))?;
        Ok(json(&Profile { name: person.name, friends }))
    })
}

async fn forget(State(people): Shared, Path(name): Path<String>) -> Result<StatusCode, Refusal> {
    collected(|m| {
        let people = people.get(m);
        // Held to the end, so that this person does not become a friend of others meanwhile.
        let mut people = people.lock(m);
        let person = people.remove(&*name).ok_or(Refusal::Unknown(name))?;
        // Friends refer to each other. When no friend refers to this person any more, nothing does.
        let mut friends = std::mem::take(&mut *person.friends.lock(m));
        while let Some(friend) = friends.pop() {
            friend.friends.lock(m).retain(|other| !Gc::ptr_eq(*other, person));
        }
        Ok(StatusCode::NO_CONTENT)
    })
}

async fn befriend(State(people): Shared, Path((one, other)): Path<(String, String)>) -> Result<StatusCode, Refusal> {
    collected(|m| {
        let people = people.get(m);
        // Held to the end, so that neither is forgotten meanwhile.
        let people = people.lock(m);
        let person = |name: &String| people.get(&**name).copied().ok_or_else(|| Refusal::Unknown(name.clone()));
        let (one, other) = (person(&one)?, person(&other)?);
        // If there is no memory, nothing has changed.
        for one in [one, other] {
            one.friends.lock(m).reserve(m, 1)?;
        }
        for (one, other) in [(one, other), (other, one)] {
            let mut friends = one.friends.lock(m);
            if !friends.iter().any(|friend| Gc::ptr_eq(*friend, other)) {
                friends.push(m, other)?;
            }
        }
        Ok(StatusCode::NO_CONTENT)
    })
}

/// The shortest chain of friends, by breadth-first search.
async fn path(State(people): Shared, Path((from, to)): Path<(String, String)>) -> Result<Response, Refusal> {
    collected(|m| {
        let people = people.get(m);
        let (from, to) = (person(m, people, &from)?, person(m, people, &to)?);
        // The person from which each one was reached, beginning with the end of the path.
        let mut reached: GcHashMap<ByAddress<Person>, Gc<Person>> = GcHashMap::new();
        let mut queue = GcDeque::from_iter(m, [to])?;
        reached.insert(m, ByAddress(to), to)?;
        while let Some(next) = queue.pop_front() {
            if Gc::ptr_eq(next, from) {
                break;
            }
            for &friend in next.friends.lock(m).iter() {
                if !reached.contains_key(&ByAddress(friend)) {
                    reached.insert(m, ByAddress(friend), next)?;
                    queue.push_back(m, friend)?;
                }
            }
        }
        let (mut names, mut place) = (GcVec::new(), from);
        while let Some(&next) = reached.get(&ByAddress(place)) {
            names.push(m, place.name)?;
            if Gc::ptr_eq(place, to) {
                break;
            }
            place = next;
        }
        Ok(json(&names))
    })
}

async fn save(State(people): Shared) -> Response {
    collected(|m| with_mutator(m, || json(&Graph(&*people.get(m).lock(m)))))
}

/// Returns what is wrong with a state that was sent.
fn check(m: &Mutator, people: &GcHashMap<Gc<str>, Gc<Person>>) -> Result<(), String> {
    for (name, &person) in people {
        if *name != person.name {
            return Err(format!("{name} has the name {}", person.name));
        }
        let friends = person.friends.lock(m);
        for (place, &friend) in friends.iter().enumerate() {
            let is_twice = friends[..place].iter().any(|other| Gc::ptr_eq(*other, friend));
            let is_known = people.get(&friend.name).is_some_and(|known| Gc::ptr_eq(*known, friend));
            // This person's own list is locked.
            let is_mutual =
                Gc::ptr_eq(friend, person) || friend.friends.lock(m).iter().any(|other| Gc::ptr_eq(*other, person));
            if is_twice || !is_known || !is_mutual {
                return Err(format!(
                    "{} is not one of the people, a friend of {name} who is not one in return, or listed twice",
                    friend.name
                ));
            }
        }
    }
    Ok(())
}

async fn restore(State(people): Shared, text: String) -> Result<StatusCode, Refusal> {
    collected(|m| {
        let Graph(restored) = with_mutator(m, || serde_json::from_str(&text)).map_err(Refusal::Malformed)?;
        check(m, &restored).map_err(Refusal::Inconsistent)?;
        *people.get(m).lock(m) = restored;
        Ok(StatusCode::NO_CONTENT)
    })
}

/// Serves until the task is dropped.
async fn serve(listener: TcpListener) -> Result<(), Box<dyn Error + Send + Sync>> {
    let people = collected(|m| Ok::<_, OutOfMemory>(m.root(m.alloc(People::default())?)))?;
    let router = Router::new()
        .route("/people/{name}", put(add).get(show).delete(forget))
        .route("/friends/{one}/{other}", put(befriend))
        .route("/path/{from}/{to}", get(path))
        .route("/state", get(save).put(restore))
        .layer(DefaultBodyLimit::max(LARGEST_STATE))
        .with_state(people);
    Ok(axum::serve(listener, router).await?)
}

/// Sends one request. Returns the status and the body of the reply.
async fn request(port: u16, method: &str, path: &str, body: &str) -> io::Result<String> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await?;
    let length = body.len();
    let head = format!("{method} {path} HTTP/1.0\r\nContent-Length: {length}\r\n\r\n");
    stream.write_all((head + body).as_bytes()).await?;
    let mut reply = String::new();
    stream.read_to_string(&mut reply).await?;
    let status = reply.split(' ').nth(1).unwrap_or_default();
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body.trim_end());
    Ok(format!("{status} {body}").trim_end().to_owned())
}

const SESSION: [(&str, &str); 12] = [
    ("PUT", "/people/ada"),
    ("PUT", "/people/bob"),
    ("PUT", "/people/bob"),
    ("PUT", "/people/eve"),
    ("PUT", "/friends/ada/bob"),
    ("PUT", "/friends/bob/eve"),
    ("GET", "/people/bob"),
    ("GET", "/path/ada/eve"),
    ("GET", "/people/mallory"),
    ("GET", "/state"),
    ("DELETE", "/people/bob"),
    ("GET", "/path/ada/eve"),
];

/// A client of many: adds `count` people, makes a ring of them, and looks for the way from the first to the one in the middle.
async fn ring(port: u16, name: usize, count: usize) -> io::Result<bool> {
    let mut right = true;
    for number in 0..count {
        right &= request(port, "PUT", &format!("/people/{name}-{number}"), "").await? == "201";
    }
    for number in 0..count {
        let next = (number + 1) % count;
        right &= request(port, "PUT", &format!("/friends/{name}-{number}/{name}-{next}"), "").await? == "204";
    }
    let names: Vec<String> = (0..=count / 2).map(|number| format!("{name}-{number}")).collect();
    let found = request(port, "GET", &format!("/path/{name}-0/{name}-{}", count / 2), "").await?;
    Ok(right && found == format!("200 {}", serde_json::to_string(&names)?))
}

/// Runs a server and one client that shows the requests; then `clients` at once. Prints the same with each run.
async fn clients(port: u16, clients: usize, count: usize) -> Result<String, Box<dyn Error + Send + Sync>> {
    let mut transcript = String::new();
    for (method, path) in SESSION {
        transcript += &format!("{method} {path} -> {}\n", request(port, method, path, "").await?);
    }
    let tasks: Vec<_> = (0..clients).map(|name| tokio::spawn(ring(port, name, count))).collect();
    let mut right = 0;
    for task in tasks {
        right += usize::from(task.await??);
    }
    // What was saved and restored is saved again.
    let saved = request(port, "GET", "/state", "").await?;
    let state = saved.strip_prefix("200 ").unwrap_or_default();
    let restored = request(port, "PUT", "/state", state).await?;
    let same = request(port, "GET", "/state", "").await? == saved;
    let refused = request(port, "PUT", "/state", "{}").await?;
    let alone = r#"{"root":{"x":{"object":[0,{"name":"y","friends":2346441946}]}},"then":[[]]}"#;
    let inconsistent = request(port, "PUT", "/state", alone).await?;
    transcript += &format!("{right} of {clients} clients have found the path\n");
    transcript += &format!("restored: {restored}, and the state is {}\n", if same { "the same" } else { "another" });
    transcript += &format!("states that are none: {refused}; {inconsistent}\n");
    Ok(transcript)
}

/// Spawns `task` on a worker, and waits for it on this thread, which is not attached.
fn on_a_worker<R: Send + 'static>(runtime: &Runtime, task: impl Future<Output = R> + Send + 'static) -> R {
    runtime.block_on(async { runtime.spawn(task).await.expect("the task does not panic") })
}

/// Runs the program with these arguments.
pub fn run(world: &World, arguments: &[&str], out: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    let port = match *arguments {
        [] => 0,
        ["serve", port] => port.parse().map_err(|_| USAGE)?,
        _ => return Err(USAGE.into()),
    };
    let runtime = runtime(world, 2)?;
    let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, port)))?;
    let port = listener.local_addr()?.port();
    if arguments.is_empty() {
        runtime.spawn(serve(listener));
        write!(out, "{}", on_a_worker(&runtime, clients(port, 4, 100))?)?;
        return Ok(());
    }
    eprintln!("friends_server: http://localhost:{port}");
    on_a_worker(&runtime, serve(listener))
}

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    run(&World::builder().heap_limit(256 << 20).build()?, &arguments, &mut io::stdout().lock())
}
