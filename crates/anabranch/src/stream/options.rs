//! The methods by which a handle of a stream chooses the options of its messages, for the handles of both interfaces.

/// Gives a handle these methods. The second argument is the place of its `SendOptions`.
macro_rules! option_methods {
    ($handle:ident, $($place:ident).+) => {
        /// The options of the messages that this handle sends: the methods have the names and arguments of [`SendOptions`]. They are those that
        /// programs use most; [`Self::with_options`] sets all.
        impl $handle {
            /// Messages are sent with these options, in place of those that the handle had.
            ///
            /// ```no_run
            /// # fn example(association: anabranch::Association) {
            /// use anabranch::{PathId, SendOptions};
            ///
            /// let options = SendOptions::default().path(PathId(1)).immediate(true);
            /// let stream = association.stream(1).with_options(options).unordered(true);
            /// # }
            /// ```
            #[must_use]
            pub fn with_options(mut self, options: SendOptions) -> Self {
                self.$($place).+ = options;
                self
            }

            /// Whether messages are delivered as soon as they arrive, whatever was sent before ([`SendOptions::unordered`](field@SendOptions::unordered)).
            #[must_use]
            pub fn unordered(mut self, unordered: bool) -> Self {
                self.$($place).+.unordered = unordered;
                self
            }

            /// Whether and when messages may be abandoned ([`SendOptions::reliability`](field@SendOptions::reliability)).
            #[must_use]
            pub fn reliability(mut self, reliability: Reliability) -> Self {
                self.$($place).+.reliability = reliability;
                self
            }

            /// Messages are abandoned when this time has passed since `send` ([`SendOptions::lifetime`]).
            #[must_use]
            pub fn lifetime(mut self, lifetime: Duration) -> Self {
                self.$($place).+ = self.$($place).+.lifetime(lifetime);
                self
            }

            /// Messages are of use for this time after `send`, and unordered ([`SendOptions::deadline`]).
            #[must_use]
            pub fn deadline(mut self, deadline: Duration) -> Self {
                self.$($place).+ = self.$($place).+.deadline(deadline);
                self
            }

            /// How many early copies each message gets ([`SendOptions::early_copies`](field@SendOptions::early_copies)).
            #[must_use]
            pub fn early_copies(mut self, copies: u8) -> Self {
                self.$($place).+.early_copies = copies;
                self
            }

            /// The payload protocol identifier of the messages ([`SendOptions::ppid`](field@SendOptions::ppid)).
            #[must_use]
            pub fn ppid(mut self, ppid: impl Into<Ppid>) -> Self {
                self.$($place).+.ppid = ppid.into();
                self
            }
        }
    };
}

pub(crate) use option_methods;
