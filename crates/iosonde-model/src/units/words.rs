//! Kinds that each have a word.

/// Declares an enum with `ALL`, its variants in this order; where each has a word (`=> "word"`),
/// also with `word` and `parse`. A variant with a value names the usual one: `Flip(u8 = 1)`.
#[macro_export(local_inner_macros)]
macro_rules! words {
    (
        $(#[$of_all:meta])*
        pub enum $name:ident {
            $(
                $(#[$of_one:meta])*
                $variant:ident $(($value:ty = $usual:expr))? $(= $number:literal)?
                    $(=> $word:literal)?,
            )*
        }
    ) => {
        $(#[$of_all])*
        pub enum $name {
            $($(#[$of_one])* $variant $(($value))? $(= $number)?,)*
        }

        impl $name {
            /// All of them, each with its usual value.
            pub const ALL: [$name; [$($name::$variant $(($usual))?),*].len()] =
                [$($name::$variant $(($usual))?),*];
        }

        words! { @words $name $($variant $($word)?,)* }
    };
    (@words $name:ident $($variant:ident,)*) => {};
    (@words $name:ident $($variant:ident $word:literal,)*) => {
        impl $name {
            /// Its word in files, options and messages.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant { .. } => $word,)*
                }
            }

            /// The one that has this word.
            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|each| each.word() == word)
            }
        }
    };
}
