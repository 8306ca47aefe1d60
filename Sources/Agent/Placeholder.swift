import Hummingbird
import Metrics
import ServiceLifecycle
import Logging
func touch() -> Any { Router() }
