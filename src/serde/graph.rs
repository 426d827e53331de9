//! [`Graph`], the form with numbers.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::marker::PhantomData;
use std::mem;

use ::serde::Deserialize;
use ::serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess};
use ::serde::ser::{self, Serialize, SerializeSeq, SerializeStruct, Serializer};

use super::erased::with_erased;
use super::failure::Failure;
use super::session::{CHANGED, Fields, GraphState, Reader, in_new_graph};
use super::visit::{Visit, current_field, in_field};
use super::visitor::{Visitor, visit};

const NAME: &str = "Graph";
const FIELDS: &[&str] = &["root", "then"];

/// A value whose objects are serialized once each, with numbers for further references. See the [module](super).
///
/// It is serialized and deserialized in [`with_mutator`](super::with_mutator), or this is an error. Both need room in the heap for one word
/// for each object, so a world whose heap is full cannot write a graph; and memory of malloc, between 50 and 220 bytes for each object.
///
/// `root` may be a struct or a tuple that refers to several objects. Graphs have numbers of their own: what two of them share is
/// written twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph<T>(pub T);

impl<T: Serialize> Serialize for Graph<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let error = |message| Failure(String::from(message));
        let how = Visit { is_human_readable: serializer.is_human_readable() };
        let fields = in_new_graph(|graph| find_fields(graph, how, &self.0), error).map_err(ser::Error::custom)?;
        in_new_graph(
            |graph| {
                let places = fields.values().map(VecDeque::len).sum();
                graph.set_fields(fields);
                let mut document = serializer.serialize_struct(NAME, FIELDS.len())?;
                document.serialize_field(FIELDS[0], &self.0)?;
                document.serialize_field(FIELDS[1], &WriteContents { graph, how, places })?;
                document.end()
            },
            ser::Error::custom,
        )
    }
}

/// The first pass: returns the fields of all places.
fn find_fields<T: Serialize>(graph: &GraphState, how: Visit, root: &T) -> Result<Fields, Failure> {
    root.serialize(how)?;
    let mut fields = Fields::new();
    while let Some(object) = graph.next_unvisited() {
        let of_object = fields.entry(object.number).or_default();
        let mut note = |contents: &dyn erased_serde::Serialize| {
            of_object.push_back(current_field());
            in_field(None, || contents.serialize(how))
        };
        visit(graph, &object, how, &mut Visitor::Write(&mut note))?;
    }
    Ok(fields)
}

/// The contents of all places.
struct WriteContents<'a> {
    graph: &'a GraphState,
    how: Visit,
    places: usize,
}

impl Serialize for WriteContents<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut sequence = serializer.serialize_seq(Some(self.places))?;
        let mut left = self.places;
        while let Some(object) = self.graph.next_unvisited() {
            let mut failure = None;
            let mut write = |contents: &dyn erased_serde::Serialize| {
                left = left.checked_sub(1).ok_or_else(|| Failure(CHANGED.to_owned()))?;
                sequence.serialize_element(contents).map_err(|error| {
                    failure = Some(error);
                    Failure(String::new())
                })
            };
            let visited = visit(self.graph, &object, self.how, &mut Visitor::Write(&mut write));
            if let Some(error) = failure {
                return Err(error);
            }
            visited.map_err(ser::Error::custom)?;
        }
        if left == 0 { sequence.end() } else { Err(ser::Error::custom(CHANGED)) }
    }
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Graph<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        in_new_graph(
            |graph| {
                let how = Visit { is_human_readable: deserializer.is_human_readable() };
                let document = ReadDocument { contents: ReadContents { graph, how }, root: PhantomData };
                deserializer.deserialize_struct(NAME, FIELDS, document)
            },
            de::Error::custom,
        )
    }
}

struct ReadDocument<'a, T> {
    contents: ReadContents<'a>,
    root: PhantomData<T>,
}

impl<'de, T: Deserialize<'de>> de::Visitor<'de> for ReadDocument<'_, T> {
    type Value = Graph<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a graph: a struct with the fields `root` and `then`")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut fields: A) -> Result<Graph<T>, A::Error> {
        let root = fields.next_element()?.ok_or_else(|| de::Error::invalid_length(0, &self))?;
        fields.next_element_seed(self.contents)?.ok_or_else(|| de::Error::invalid_length(1, &self))?;
        Ok(Graph(root))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Graph<T>, A::Error> {
        expect_field(&mut fields, Field::Root)?;
        let root = fields.next_value()?;
        expect_field(&mut fields, Field::Then)?;
        fields.next_value_seed(self.contents)?;
        match fields.next_key::<Field>()? {
            None => Ok(Graph(root)),
            Some(field) => Err(de::Error::duplicate_field(field.name())),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(field_identifier, rename_all = "lowercase")]
enum Field {
    Root,
    Then,
}

impl Field {
    fn name(self) -> &'static str {
        FIELDS[self as usize]
    }
}

/// Reads the name of the next field, which must be `expected`: the contents of places can only be read after the objects.
fn expect_field<'de, A: MapAccess<'de>>(fields: &mut A, expected: Field) -> Result<(), A::Error> {
    match fields.next_key::<Field>()? {
        Some(found) if found == expected => Ok(()),
        Some(found) => {
            Err(de::Error::custom(format!("the field `{}` comes before `{}`", found.name(), expected.name())))
        }
        None => Err(de::Error::missing_field(expected.name())),
    }
}

/// Reads the contents of all places.
#[derive(Clone, Copy)]
struct ReadContents<'a> {
    graph: &'a GraphState,
    how: Visit,
}

impl<'de> DeserializeSeed<'de> for ReadContents<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> de::Visitor<'de> for ReadContents<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the contents of each cell and lock")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        let mut places = 0;
        while let Some(mut object) = self.graph.next_unvisited() {
            let mut readers = mem::take(&mut object.readers);
            let mut done = Occurrences::default();
            // One visit reads all places, unless the fields had another order when they were written.
            while let Some(&next) = readers.front() {
                let (mut failure, before, mut passed) = (None, places, Occurrences::default());
                let mut read = |contents: &mut dyn Any| {
                    let field = current_field();
                    let occurrence = passed.next(field);
                    let Some(&reader) = readers.front() else { return Ok(false) };
                    if reader.field != field || occurrence != done.count(field) {
                        return Ok(false);
                    }
                    match sequence.next_element_seed(ReadPlace { contents, reader }) {
                        Ok(Some(())) => {}
                        Ok(None) => {
                            return Err(Failure(format!(
                                "`then` has {places} elements, but the objects have more cells and locks"
                            )));
                        }
                        Err(error) => {
                            failure = Some(error);
                            return Err(Failure(String::new()));
                        }
                    }
                    readers.pop_front();
                    done.next(field);
                    places += 1;
                    Ok(true)
                };
                let visited = visit(self.graph, &object, self.how, &mut Visitor::Read(&mut read));
                if let Some(error) = failure {
                    return Err(error);
                }
                visited.map_err(de::Error::custom)?;
                if places == before {
                    return Err(de::Error::custom(object.disagrees(next.field)));
                }
            }
        }
        match sequence.next_element::<IgnoredAny>()? {
            None => Ok(()),
            Some(_) => Err(de::Error::custom(format!(
                "`then` has more than {places} elements, but the objects have only {places} cells and locks"
            ))),
        }
    }
}

/// How many places of each field there were. An object has few fields.
#[derive(Default)]
struct Occurrences(Vec<(u32, usize)>);

impl Occurrences {
    fn count(&self, field: u32) -> usize {
        self.0.iter().find(|(known, _)| *known == field).map_or(0, |(_, count)| *count)
    }

    /// Adds a place of a field. Returns how many there were before.
    fn next(&mut self, field: u32) -> usize {
        let before = self.count(field);
        match self.0.iter_mut().find(|(known, _)| *known == field) {
            Some((_, count)) => *count += 1,
            None => self.0.push((field, 1)),
        }
        before
    }
}

/// Reads the contents of one place.
struct ReadPlace<'a> {
    contents: &'a mut dyn Any,
    reader: Reader,
}

impl<'de> DeserializeSeed<'de> for ReadPlace<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        with_erased(deserializer, |deserializer| (self.reader.read)(self.contents, deserializer))
    }
}
