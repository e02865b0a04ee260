//! Enums whose variants have names.

/// Makes an enum with a name for each variant, with `ALL` and `name`.
///
/// ```
/// units::named! {
///     /// A fruit.
///     #[derive(Clone, Copy)]
///     pub enum Fruit {
///         /// It is red.
///         Apple => "apple",
///         /// It is yellow, and has a number.
///         Pear = 7 => "pear",
///     }
/// }
/// assert_eq!(Fruit::ALL.map(Fruit::name), ["apple", "pear"]);
/// assert_eq!(Fruit::Pear as u8, 7);
/// ```
#[macro_export]
macro_rules! named {
    (
        $(#[$enum_attribute:meta])*
        $visibility:vis enum $enum:ident {
            $($(#[$attribute:meta])* $variant:ident $(= $number:literal)? => $name:literal,)+
        }
    ) => {
        $(#[$enum_attribute])*
        $visibility enum $enum {
            $($(#[$attribute])* $variant $(= $number)?,)+
        }

        impl $enum {
            /// All variants, in the order of their declaration.
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Returns the variant's name.
            #[must_use]
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }
        }
    };
}
