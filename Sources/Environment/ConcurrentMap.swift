extension Array where Element: Sendable {
    /// What a function makes of each element, in their order: of a long list in several tasks at once, for work that somebody waits for.
    ///
    /// - Parameter part: how many elements are worth a task.
    package func concurrentlyMapped<Result: Sendable>(part: Int = 64, _ transform: @escaping @Sendable (Element) -> Result) async -> [Result] {
        // Others have work for the processor, too.
        let tasks = Swift.min(count / part, 4)
        guard tasks > 1 else { return map(transform) }
        return await withTaskGroup(of: (Int, [Result]).self) { group in
            let size = (count + tasks - 1) / tasks
            for task in 0..<tasks {
                let slice = self[(task * size)..<Swift.min(count, (task + 1) * size)]
                group.addTask { (task, slice.map(transform)) }
            }
            var parts = [[Result]](repeating: [], count: tasks)
            for await (task, results) in group { parts[task] = results }
            return parts.flatMap(\.self)
        }
    }
}
