//! Lists the fuzzer's targets of the backends: the parsers of what servers answer and of what stores keep.

use crate::lock::LockName;

/// Pairs a target with its name, which is that of its directory in `fuzz/corpus/`.
pub(crate) type Target = (&'static str, fn(&[u8]));

/// The targets of the backends in this build.
pub(crate) const TARGETS: &[Target] = &[
    #[cfg(feature = "etcd")]
    ("etcd", crate::backend::etcd::fuzz::fuzz),
    #[cfg(feature = "http")]
    ("http", crate::backend::net::http::fuzz::fuzz),
    #[cfg(feature = "kubernetes")]
    ("kubernetes", crate::backend::record::kubernetes::fuzz::fuzz),
    #[cfg(feature = "mysql")]
    ("mysql", crate::backend::sql::mysql::fuzz::fuzz),
    #[cfg(feature = "postgres")]
    ("pgpass", crate::backend::sql::postgres::fuzz::fuzz),
    #[cfg(feature = "postgres")]
    ("postgres", crate::backend::sql::postgres::fuzz::messages),
    #[cfg(any(test, feature = "record"))]
    ("record", crate::backend::record::engine::fuzz::fuzz),
    #[cfg(feature = "redis")]
    ("redis", crate::backend::redis::fuzz::fuzz),
    #[cfg(feature = "zookeeper")]
    ("zookeeper", crate::backend::record::zookeeper::fuzz::fuzz),
];

/// Checks that the stores with rules for names keep this lock apart from others.
pub(crate) fn name(_lock: &LockName) {
    #[cfg(feature = "kubernetes")]
    crate::backend::record::kubernetes::fuzz::name(_lock);
    #[cfg(feature = "zookeeper")]
    crate::backend::record::zookeeper::fuzz::name(_lock);
}
