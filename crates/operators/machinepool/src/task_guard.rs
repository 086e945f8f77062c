//! Task guard: a task that ends with its owner. One that went on after its operator has stopped would write beside the next one.

use tokio::task::JoinHandle;

#[derive(Debug)]
pub struct TaskGuard(JoinHandle<()>);

impl TaskGuard {
    pub fn spawn(task: impl Future<Output = ()> + Send + 'static) -> TaskGuard {
        TaskGuard(tokio::spawn(task))
    }
}

impl Drop for TaskGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}
