//! Builder methods of option structs.

/// Declares the builder methods of a struct of options, inside an `impl` block of it: for each field its documentation, its name
/// and the type of the argument. Arguments are converted, so that `impl Into<Option<T>>` takes a `T` and `None` alike.
///
/// ```
/// #[derive(Default)]
/// #[non_exhaustive]
/// pub struct RingOptions {
///     pub depth: u32,
///     pub cpu: Option<u16>,
/// }
///
/// impl RingOptions {
///     byway_sys::setters! {
///         /// Operations in flight at once.
///         depth: u32;
///         /// The processor that polls the ring.
///         cpu: impl Into<Option<u16>>;
///     }
/// }
///
/// let options = RingOptions::default().depth(64).cpu(3);
/// assert_eq!((options.depth, options.cpu), (64, Some(3)));
/// ```
#[macro_export]
macro_rules! setters {
    ($($(#[$doc:meta])+ $field:ident: $type:ty;)+) => {$(
        $(#[$doc])+
        #[must_use]
        pub fn $field(mut self, $field: $type) -> Self {
            self.$field = $field.into();
            self
        }
    )+};
}
