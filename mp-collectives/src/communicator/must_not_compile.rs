//! Programs that must not compile, and the reasons.
//!
//! Each case appears twice: once in its correct form, which compiles, and once with the one change that must not. So it
//! fails because of that change alone, whatever the compiler's message is. The error codes are checked by compilers
//! that can check them.

/// A request could be leaked, and its message read when it is gone.
///
/// ```no_run
/// # use onchip::Communicator;
/// fn send(world: &Communicator) {
///     let local = [1, 2, 3];
///     drop(world.nonblocking_send(local, 0, 0));
/// }
/// ```
///
/// ```compile_fail,E0597
/// # use onchip::Communicator;
/// fn send(world: &Communicator) {
///     let local = [1, 2, 3];
///     drop(world.nonblocking_send(&local[..], 0, 0));
/// }
/// ```
struct ASendOfWhatIsBorrowed;

/// A buffer belongs to the request until the request is done.
///
/// ```no_run
/// # use onchip::Communicator;
/// fn receive(world: &Communicator) {
///     let mut local = [0; 3];
///     let request = world.nonblocking_receive(&mut local[..], 0, 0);
///     drop(request);
///     local[0] = 1;
/// }
/// ```
///
/// ```compile_fail,E0506
/// # use onchip::Communicator;
/// fn receive(world: &Communicator) {
///     let mut local = [0; 3];
///     let request = world.nonblocking_receive(&mut local[..], 0, 0);
///     local[0] = 1;
///     drop(request);
/// }
/// ```
struct ABufferThatIsReceivedInto;

/// The elements that an exchange sends must not change until it is carried out.
///
/// ```no_run
/// # use onchip::Communicator;
/// fn send(world: &Communicator) {
///     let mut local = [1, 2, 3];
///     let mut exchange = world.exchange();
///     exchange.send(&local, 0, 0);
///     drop(exchange.run());
///     local[0] = 1;
/// }
/// ```
///
/// ```compile_fail,E0506
/// # use onchip::Communicator;
/// fn send(world: &Communicator) {
///     let mut local = [1, 2, 3];
///     let mut exchange = world.exchange();
///     exchange.send(&local, 0, 0);
///     local[0] = 1;
///     drop(exchange.run());
/// }
/// ```
struct AnExchangeOfWhatChanges;

/// A communicator may be used only by the thread that made it.
///
/// ```no_run
/// # use onchip::Communicator;
/// fn hand_over(rank: &onchip::Rank) {
///     let rank = rank.clone();
///     std::thread::spawn(move || Communicator::world(&rank).rank());
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::Communicator;
/// fn hand_over(rank: &onchip::Rank) {
///     let world = Communicator::world(rank);
///     std::thread::spawn(move || world.rank());
/// }
/// ```
struct ACommunicatorOfAnotherThread;

/// Pointers have no meaning in another process.
///
/// ```no_run
/// # use onchip::Communicator;
/// fn send(world: &Communicator, words: &[[u8; 4]]) {
///     drop(world.send(words, 0, 0));
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::Communicator;
/// fn send(world: &Communicator, words: &[&str]) {
///     drop(world.send(words, 0, 0));
/// }
/// ```
struct AMessageOfPointers;
