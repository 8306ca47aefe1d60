import Digests
import Environment
import LuaRuntime
import Synchronization

/// `nightjar.password` for one state.
///
/// scrypt deliberately takes more CPU time than a call may use. It runs on a separate thread, whose time does not count for the
/// call; the number of operations is limited instead.
final class PasswordService: Sendable {
    private let operations = Atomic<Int>(0)

    /// The state starts a new turn on its worker.
    func newTurn() { operations.store(0, ordering: .relaxed) }

    func hash(_ password: [UInt8]) throws(LuaHostRefusal) -> String {
        guard let text = String(validating: password, as: UTF8.self) else { throw LuaHostRefusal("the password is not UTF-8 text") }
        return try run { () throws(DigestError) in try PasswordHash.make(password: text) }
    }

    /// A password that is not UTF-8 matches no hash.
    func verify(_ password: [UInt8], hash: String) throws(LuaHostRefusal) -> Bool {
        try run { () throws(DigestError) in
            guard let text = String(validating: password, as: UTF8.self) else {
                try PasswordHash.validate(hash)
                return false
            }
            return try PasswordHash.verify(password: text, hash: hash)
        }
    }

    private func run<Value: Sendable>(
        _ work: @escaping @Sendable () throws(DigestError) -> Value
    ) throws(LuaHostRefusal) -> Value {
        guard operations.add(1, ordering: .relaxed).newValue <= PluginHostLimits.passwordOperations else {
            throw LuaHostRefusal("more than password operations = \(PluginHostLimits.passwordOperations) in one call")
        }
        let box = OutcomeBox<Value>()
        do {
            try Thread(name: "plugin-scrypt", stackBytes: 1 << 20) {
                let result = Result { () throws(DigestError) in try work() }
                box.value.withLock { $0 = result }
            }.join()
        } catch {
            throw LuaHostRefusal("\(error)")
        }
        switch box.value.withLock({ $0 }) {
        case .success(let value): return value
        case .failure(let error): throw LuaHostRefusal("\(error)")
        case nil: throw LuaHostRefusal("scrypt gave no answer")
        }
    }

    /// A `Mutex` cannot be captured by a closure; a class that contains one can.
    private final class OutcomeBox<Value: Sendable>: Sendable {
        let value = Mutex<Result<Value, DigestError>?>(nil)
    }
}
