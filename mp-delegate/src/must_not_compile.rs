//! What must not compile, and why not.
//!
//! Each case stands twice: once as it is right, which compiles, and once with the one change that
//! must not. So it fails for that change alone, whatever a compiler's words for it are. The
//! errors' codes are checked by compilers that can check them.

/// The thread would count its references beside the caller.
///
/// ```no_run
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, row: std::sync::Arc<[u8]>) {
///     drop(to.send(row));
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, row: std::rc::Rc<[u8]>) {
///     drop(to.send(row));
/// }
/// ```
struct AMessageOfAnotherThread;

/// A channel carries one type.
///
/// ```no_run
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>) {
///     drop(to.send(vec![1u8]));
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>) {
///     drop(to.send(vec![1.5f64]));
/// }
/// ```
struct AMessageOfAnotherType;

/// A request could be leaked, and the thread read what is gone.
///
/// ```no_run
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>) {
///     let local = &[1, 2, 3];
///     drop(to.send(&local[..]));
/// }
/// ```
///
/// ```compile_fail,E0597
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>) {
///     let local = [1, 2, 3];
///     drop(to.send(&local[..]));
/// }
/// ```
struct ABorrowWithoutAScope;

/// The scope joins at its end; what is lent must live until then.
///
/// ```no_run
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     let local = [1, 2, 3];
///     threads::scope(|scope| {
///         scope.send(to, &local[..]);
///     });
/// }
/// ```
///
/// ```compile_fail,E0597
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     threads::scope(|scope| {
///         let local = [1, 2, 3];
///         scope.send(to, &local[..]);
///     });
/// }
/// ```
struct ABorrowThatEndsBeforeTheScope;

/// Its answer holds a borrow that ends with the scope.
///
/// ```no_run
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     let row = [1, 2, 3];
///     threads::scope(|scope| {
///         let request = scope.send(to, &row[..]);
///         drop(request.wait());
///     });
/// }
/// ```
///
/// ```compile_fail
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     let row = [1, 2, 3];
///     let request = threads::scope(|scope| {
///         scope.send(to, &row[..])
///     });
///     drop(request.wait());
/// }
/// ```
struct ARequestThatLeavesItsScope;

/// The thread may be reading it.
///
/// ```no_run
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     let mut row = [1, 2, 3];
///     threads::scope(|scope| {
///         scope.send(to, &row[..]);
///     });
///     row[0] = 7;
/// }
/// ```
///
/// ```compile_fail,E0506
/// # use onchip::threads::{self, Delegated};
/// fn send(to: &mut Delegated<[u8]>) {
///     let mut row = [1, 2, 3];
///     threads::scope(|scope| {
///         scope.send(to, &row[..]);
///         row[0] = 7;
///     });
/// }
/// ```
struct AChangeWhileItIsLent;

/// The request owns it until `wait` gives it back.
///
/// ```no_run
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, row: Vec<u8>) -> onchip::Result<()> {
///     let request = to.send(row);
///     let mut row = request.wait()?;
///     row[0] = 7;
///     Ok(())
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, mut row: Vec<u8>) -> onchip::Result<()> {
///     let request = to.send(row);
///     row[0] = 7;
///     request.wait()?;
///     Ok(())
/// }
/// ```
struct AChangeWhileItIsDelegated;

/// It is the receiver's, or about to be.
///
/// ```no_run
/// # use onchip::SharedBuffer;
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, buffer: SharedBuffer<u8>) {
///     assert_eq!(buffer.len(), 3);
///     let request = to.send_buffer(buffer);
///     drop(request.wait());
/// }
/// ```
///
/// ```compile_fail,E0382
/// # use onchip::SharedBuffer;
/// # use onchip::threads::Delegated;
/// fn send(to: &mut Delegated<[u8]>, buffer: SharedBuffer<u8>) {
///     let request = to.send_buffer(buffer);
///     assert_eq!(buffer.len(), 3);
///     drop(request.wait());
/// }
/// ```
struct ABufferUsedAfterItWasDelegated;

/// A handle of a protected value is of one thread at a time: it can go to another one, and can't be used by
/// two.
///
/// ```no_run
/// # use onchip::critical::{Protected, objects::Counter};
/// fn count(hits: Protected<Counter>) {
///     std::thread::spawn(move || hits.fetch_add(1).map(drop));
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::critical::{Protected, objects::Counter};
/// fn count(hits: &Protected<Counter>) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| hits.fetch_add(1).map(drop));
///     });
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use onchip::critical::Caller;
/// fn count(hits: &Caller<u64>) {
///     std::thread::scope(|scope| {
///         scope.spawn(|| hits.run(|hits| *hits += 1));
///     });
/// }
/// ```
struct AHandleOfTwoThreads;
