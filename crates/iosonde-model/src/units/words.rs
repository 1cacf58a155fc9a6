//! A macro for enums whose variants each have a word.

/// Declares an enum with `ALL`, its variants in this order. If each variant has a word (`=>
/// "word"`), also `word` and `parse`. A variant with a value gives its default: `Flip(u8 = 1)`.
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
            /// All variants, each with its default value.
            pub const ALL: [$name; [$($name::$variant $(($usual))?),*].len()] =
                [$($name::$variant $(($usual))?),*];
        }

        words! { @words $name $($variant $($word)?,)* }
    };
    (@words $name:ident $($variant:ident,)*) => {};
    (@words $name:ident $($variant:ident $word:literal,)*) => {
        impl $name {
            /// The variant's word in files, options and messages.
            pub fn word(self) -> &'static str {
                match self {
                    $($name::$variant { .. } => $word,)*
                }
            }

            /// The variant with this word.
            pub fn parse(word: &str) -> Option<$name> {
                $name::ALL.into_iter().find(|each| each.word() == word)
            }
        }
    };
}
