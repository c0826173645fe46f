//! Blocks of a job as structs whose fields are declared once. `block!` makes of one declaration the plain struct, its default
//! and its table of members; readers, writers and differs then go through the fields without knowing the struct: they see
//! each as a `FieldView`, and fill each through its `Slot`.
//!
//! Refuses to know: JSON and HCL.

use super::{Block, Member, Shape, ValueKind};
use crate::time::Span;
use crate::value::Value;
use std::collections::BTreeMap;

/// A block, field by field.
pub trait Fields {
    fn block(&self) -> &'static Block;

    /// Every member of the block, in the order of its declaration; `FieldView::NotKept` for one that is not kept.
    fn each<'a>(&'a self, see: &mut dyn FnMut(&'static Member, FieldView<'a>));

    /// Where the member of that name in JSON is kept, if it is.
    fn slot(&mut self, json: &str) -> Option<Slot<'_>>;

    /// A block of the same kind with every default.
    fn fresh(&self) -> Box<dyn Fields>;
}

/// What `block!` declares.
pub trait Declared: Fields + Default {
    const BLOCK: &'static Block;
}

/// What a field holds.
#[derive(Clone, Copy)]
pub enum FieldView<'a> {
    Null,
    /// Known, but not kept.
    NotKept,
    Text(&'a str),
    Int(i64),
    Bool(bool),
    Span(Span),
    Texts(&'a [String]),
    TextMap(&'a BTreeMap<String, String>),
    Free(&'a BTreeMap<String, Value>),
    Block(&'a dyn Fields),
    Blocks(&'a dyn BlockList),
    ByLabel(&'a dyn BlockMap),
}

impl FieldView<'_> {
    pub const fn not_kept(member: &Member) -> FieldView<'static> {
        match member.shape {
            Shape::Value(ValueKind::Int) if member.always_zero => FieldView::Int(0),
            Shape::Value(ValueKind::Bool) if member.always_zero => FieldView::Bool(false),
            _ if member.constant.is_empty() => FieldView::NotKept,
            _ => FieldView::Text(member.constant),
        }
    }
}

/// Where a field's value goes.
pub enum Slot<'a> {
    Text(&'a mut String),
    Int(&'a mut i64),
    Bool(&'a mut bool),
    Span(&'a mut Span),
    MaybeSpan(&'a mut Option<Span>),
    Word(&'a mut dyn Word),
    Texts(&'a mut Vec<String>),
    TextMap(&'a mut BTreeMap<String, String>),
    Free(&'a mut BTreeMap<String, Value>),
    /// Asking for the slot makes a block that was not there.
    Block(&'a mut dyn Fields),
    Blocks(&'a mut dyn BlockList),
    ByLabel(&'a mut dyn BlockMap),
}

/// One of a few words; `words!` declares them.
pub trait Word {
    fn known(&self) -> &'static [&'static str];

    fn shown(&self) -> &'static str;

    /// Whether it is one of them; otherwise nothing changes.
    fn set(&mut self, word: &str) -> bool;
}

/// Blocks one after another.
pub trait BlockList {
    fn count(&self) -> usize;
    fn at(&self, i: usize) -> Option<&dyn Fields>;
    fn at_mut(&mut self, i: usize) -> Option<&mut dyn Fields>;
    /// A new one behind the others.
    fn push(&mut self) -> &mut dyn Fields;
}

/// Blocks by their labels.
pub trait BlockMap {
    fn labels(&self) -> Vec<&str>;
    fn get(&self, label: &str) -> Option<&dyn Fields>;
    fn entry(&mut self, label: &str) -> &mut dyn Fields;
}

/// A type that a field can have.
pub trait FieldType {
    const SHAPE: Shape;
    fn view(&self) -> FieldView<'_>;
    fn slot(&mut self) -> Slot<'_>;
}

/// The member with the shape of its field's type.
pub const fn typed<T: FieldType>(member: Member) -> Member {
    Member { shape: T::SHAPE, ..member }
}

macro_rules! plain_types {
    ($($type:ty, $kind:ident, $value:ident => $view:expr, $slot:ident;)*) => {$(
        impl FieldType for $type {
            const SHAPE: Shape = Shape::Value(ValueKind::$kind);

            fn view(&self) -> FieldView<'_> {
                let $value = self;
                $view
            }

            fn slot(&mut self) -> Slot<'_> {
                Slot::$slot(self)
            }
        }
    )*};
}

plain_types! {
    String, Text, v => FieldView::Text(v), Text;
    i64, Int, v => FieldView::Int(*v), Int;
    bool, Bool, v => FieldView::Bool(*v), Bool;
    Span, Span, v => FieldView::Span(*v), Span;
    Option<Span>, Span, v => v.map_or(FieldView::Null, FieldView::Span), MaybeSpan;
    Vec<String>, Texts, v => FieldView::Texts(v), Texts;
    BTreeMap<String, String>, TextMap, v => FieldView::TextMap(v), TextMap;
    BTreeMap<String, Value>, Free, v => FieldView::Free(v), Free;
}

impl<B: Declared> FieldType for B {
    const SHAPE: Shape = Shape::One(B::BLOCK);

    fn view(&self) -> FieldView<'_> {
        FieldView::Block(self)
    }

    fn slot(&mut self) -> Slot<'_> {
        Slot::Block(self)
    }
}

impl<B: Declared> FieldType for Option<B> {
    const SHAPE: Shape = Shape::One(B::BLOCK);

    fn view(&self) -> FieldView<'_> {
        self.as_ref().map_or(FieldView::Null, |b| FieldView::Block(b))
    }

    fn slot(&mut self) -> Slot<'_> {
        Slot::Block(self.get_or_insert_with(B::default))
    }
}

impl<B: Declared> FieldType for Vec<B> {
    const SHAPE: Shape = Shape::Many(B::BLOCK);

    fn view(&self) -> FieldView<'_> {
        FieldView::Blocks(self)
    }

    fn slot(&mut self) -> Slot<'_> {
        Slot::Blocks(self)
    }
}

impl<B: Declared> FieldType for BTreeMap<String, B> {
    const SHAPE: Shape = Shape::ByLabel(B::BLOCK);

    fn view(&self) -> FieldView<'_> {
        FieldView::ByLabel(self)
    }

    fn slot(&mut self) -> Slot<'_> {
        Slot::ByLabel(self)
    }
}

impl<B: Declared> BlockList for Vec<B> {
    fn count(&self) -> usize {
        self.len()
    }

    fn at(&self, i: usize) -> Option<&dyn Fields> {
        self.get(i).map(|b| b as &dyn Fields)
    }

    fn at_mut(&mut self, i: usize) -> Option<&mut dyn Fields> {
        self.get_mut(i).map(|b| b as &mut dyn Fields)
    }

    fn push(&mut self) -> &mut dyn Fields {
        let at = self.len();
        Vec::push(self, B::default());
        &mut self[at]
    }
}

impl<B: Declared> BlockMap for BTreeMap<String, B> {
    fn labels(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }

    fn get(&self, label: &str) -> Option<&dyn Fields> {
        BTreeMap::get(self, label).map(|b| b as &dyn Fields)
    }

    fn entry(&mut self, label: &str) -> &mut dyn Fields {
        BTreeMap::entry(self, label.to_string()).or_default()
    }
}

/// A struct that is a block of a job. Each field that users write has its row: its names in HCL and JSON (`nullable` or
/// `zeroed`), what a change of it means, and after `=` its default where that is not its type's. A field without a row is not
/// theirs, or is read and written by hand. `and [...]` lists what the block has beside: what is not built, or not kept.
macro_rules! block {
    (@default) => { Default::default() };
    (@default $default:expr) => { $default };
    (
        $(#[$attribute:meta])*
        $visible:vis struct $name:ident in $block:expr => {
            $( $(#[$about:meta])* $shown:vis $field:ident: $type:ty $(= $default:expr)? $(=> $row:expr)?; )*
        }
        $( and [ $($other:expr),* $(,)? ] )?
    ) => {
        $(#[$attribute])*
        $visible struct $name {
            $( $(#[$about])* $shown $field: $type, )*
        }

        impl Default for $name {
            fn default() -> Self {
                $name { $( $field: $crate::schema::block!(@default $($default)?), )* }
            }
        }

        impl $crate::schema::Declared for $name {
            const BLOCK: &'static $crate::schema::Block = &$crate::schema::Block {
                members: &[
                    $( $( $crate::schema::typed::<$type>($row), )? )*
                    $( $( $other, )* )?
                ],
                ..$block
            };
        }

        impl $crate::schema::Fields for $name {
            fn block(&self) -> &'static $crate::schema::Block {
                <Self as $crate::schema::Declared>::BLOCK
            }

            fn each<'a>(
                &'a self,
                see: &mut dyn FnMut(&'static $crate::schema::Member, $crate::schema::FieldView<'a>),
            ) {
                $( $({
                    const MEMBER: &$crate::schema::Member = &$crate::schema::typed::<$type>($row);
                    see(MEMBER, $crate::schema::FieldType::view(&self.$field));
                })? )*
                $( $({
                    const MEMBER: &$crate::schema::Member = &$other;
                    see(MEMBER, $crate::schema::FieldView::not_kept(MEMBER));
                })* )?
            }

            fn slot(&mut self, json: &str) -> Option<$crate::schema::Slot<'_>> {
                $( $({
                    const MEMBER: &$crate::schema::Member = &$row;
                    if json == MEMBER.json {
                        return Some($crate::schema::FieldType::slot(&mut self.$field));
                    }
                })? )*
                None
            }

            fn fresh(&self) -> Box<dyn $crate::schema::Fields> {
                Box::new($name::default())
            }
        }
    };
}

/// An enum whose variants users write as words.
macro_rules! words {
    (
        $(#[$attribute:meta])*
        $visible:vis enum $name:ident {
            $( $(#[$about:meta])* $variant:ident = $word:literal, )*
        }
    ) => {
        $(#[$attribute])*
        $visible enum $name {
            $( $(#[$about])* $variant, )*
        }

        impl $name {
            pub const WORDS: &'static [&'static str] = &[$($word),*];

            pub fn as_str(self) -> &'static str {
                match self {
                    $( $name::$variant => $word, )*
                }
            }
        }

        impl $crate::schema::Word for $name {
            fn known(&self) -> &'static [&'static str] {
                Self::WORDS
            }

            fn shown(&self) -> &'static str {
                self.as_str()
            }

            fn set(&mut self, word: &str) -> bool {
                *self = match word {
                    $( $word => $name::$variant, )*
                    _ => return false,
                };
                true
            }
        }

        impl $crate::schema::FieldType for $name {
            const SHAPE: $crate::schema::Shape = $crate::schema::Shape::Value($crate::schema::ValueKind::Text);

            fn view(&self) -> $crate::schema::FieldView<'_> {
                $crate::schema::FieldView::Text(self.as_str())
            }

            fn slot(&mut self) -> $crate::schema::Slot<'_> {
                $crate::schema::Slot::Word(self)
            }
        }
    };
}

pub(crate) use {block, words};
