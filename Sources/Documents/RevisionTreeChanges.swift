extension RevisionTree {
    /// Adds a revision with its ancestors, nearest first, up to the first one that is known (LiteCore's rule, replication.md section 7). Generations
    /// decrease by exactly one at each step, except from the `depth`th revision on (counting the new one), where peers prune. A peer that keeps less
    /// has gaps sooner: what comes after one counts if it leads to a known revision, and is left out otherwise. A known revision changes nothing. The
    /// tree is unchanged if an error is thrown.
    @discardableResult
    public mutating func insert(
        _ revision: RevisionID, history: RevisionHistory = RevisionHistory(), isDeleted: Bool = false, depth: Int = 50
    ) throws(RevisionTreeError) -> Insertion {
        guard history.count <= DocumentLimits.historyRevisions else {
            throw .historyTooLong(count: history.count, limit: DocumentLimits.historyRevisions)
        }
        guard revision.generation <= DocumentLimits.storedGeneration else {
            throw .generationTooHigh(revision, limit: DocumentLimits.storedGeneration)
        }
        let oldDigestCount = digests.count
        var chain: [Node] = []
        chain.reserveCapacity(history.count + 1)
        var ancestor = -1
        do throws(RevisionTreeError) {
            ancestor = try readChain(revision, history, depth: depth, into: &chain)
            guard nodes.count + chain.count <= DocumentLimits.treeRevisions else {
                throw .tooManyRevisions(count: nodes.count + chain.count, limit: DocumentLimits.treeRevisions)
            }
        } catch {
            digests.removeLast(digests.count - oldDigestCount)
            throw error
        }
        guard !chain.isEmpty else { return .alreadyPresent }
        chain[0].isDeleted = isDeleted
        chain[0].isLeaf = true
        let result = Insertion.inserted(
            ancestor: ancestor < 0 ? nil : self.revision(at: ancestor), extendsLeaf: ancestor >= 0 && nodes[ancestor].isLeaf)
        merge(chain, below: ancestor)
        return result
    }

    /// The same for a history that is available as values.
    @discardableResult
    public mutating func insert(
        _ revision: RevisionID, history: [RevisionID], isDeleted: Bool = false, depth: Int = 50
    ) throws(RevisionTreeError) -> Insertion {
        try insert(revision, history: RevisionHistory(history), isDeleted: isDeleted, depth: depth)
    }

    /// Appends the digests of the new revisions, and their nodes, up to the newest known one; returns its index or -1.
    private mutating func readChain(
        _ revision: RevisionID, _ history: RevisionHistory, depth: Int, into chain: inout [Node]
    ) throws(RevisionTreeError) -> Int {
        var child = revision
        var ancestors = history.makeIterator()
        var next: RevisionID? = revision
        var index = -1
        var beforeGap: (revisions: Int, digests: Int)?
        while let current = next {
            next = ancestors.next()
            index += 1
            if index > 0 {
                guard current.generation < child.generation else { throw .historyDoesNotDescend(child: child, parent: current) }
                if beforeGap == nil, current.generation != child.generation - 1, index < depth - 1 { beforeGap = (chain.count, digests.count) }
            }
            let start = digests.count
            guard let known = append(digestOf: current) else { throw .notATreeRevision(value: quoted(current.text.utf8)) }
            if known >= 0 { return known }
            chain.append(
                Node(
                    generation: current.generation, digestStart: UInt32(start), digestCount: UInt32(digests.count - start),
                    parent: -1, isDeleted: false, isLeaf: false))
            child = current
        }
        if let beforeGap {
            chain.removeLast(chain.count - beforeGap.revisions)
            digests.removeLast(digests.count - beforeGap.digests)
        }
        return -1
    }

    /// Appends a digest and returns -1, or appends nothing and returns the index of the revision if it is known; nil for an id of the other kind.
    private mutating func append(digestOf revision: RevisionID) -> Int? {
        withUnsafeTemporaryAllocation(byteCount: DocumentLimits.revisionDigestDigits / 2, alignment: 1) { scratch in
            guard let count = Self.readDigest(of: revision, into: scratch) else { return nil }
            let digest = UnsafeRawBufferPointer(rebasing: scratch[..<count])
            if let known = index(generation: revision.generation, digest: digest) { return known }
            digests.append(contentsOf: digest)
            return -1
        }
    }

    /// Merges new nodes into the tree; they are in descending order and each is the child of the next.
    private mutating func merge(_ chain: [Node], below ancestor: Int) {
        let old = nodes
        var merged: [Node] = []
        merged.reserveCapacity(old.count + chain.count)
        var oldPlaces = [Int32](repeating: -1, count: old.count)
        var newPlaces = [Int32](repeating: -1, count: chain.count)
        var o = 0
        var c = 0
        while o < old.count || c < chain.count {
            if c == chain.count || (o < old.count && compare(old[o], chain[c]) > 0) {
                oldPlaces[o] = Int32(merged.count)
                merged.append(old[o])
                o += 1
            } else {
                newPlaces[c] = Int32(merged.count)
                merged.append(chain[c])
                c += 1
            }
        }
        for index in old.indices where old[index].parent >= 0 {
            merged[Int(oldPlaces[index])].parent = oldPlaces[Int(old[index].parent)]
        }
        for index in chain.indices {
            let parent = index + 1 < chain.count ? newPlaces[index + 1] : ancestor >= 0 ? oldPlaces[ancestor] : -1
            merged[Int(newPlaces[index])].parent = parent
        }
        if ancestor >= 0 { merged[Int(oldPlaces[ancestor])].isLeaf = false }
        nodes = merged
    }

    /// Drops revisions that are `depth` or more steps above every leaf below them. Leaves and the revisions in `keeping` always stay; a revision
    /// whose parent is dropped is attached to its nearest remaining ancestor. Returns the number of dropped revisions.
    @discardableResult
    public mutating func prune(depth: Int, keeping: Set<RevisionID> = []) -> Int {
        let depth = max(depth, 1)
        guard nodes.count > depth else { return 0 }
        var distance = [Int](repeating: .max, count: nodes.count)
        for leaf in nodes.indices where nodes[leaf].isLeaf {
            var at = leaf
            var steps = 0
            while at >= 0, steps < depth, steps < distance[at] {
                distance[at] = steps
                steps += 1
                at = Int(nodes[at].parent)
            }
        }
        var keep = distance.map { $0 < depth }
        guard keep.contains(false) else { return 0 }
        for revision in keeping {
            if let index = index(of: revision) { keep[index] = true }
        }
        return remove(keep)
    }

    /// Removes a leaf and its ancestors up to the first one that has another child. Returns the removed revisions, newest first; none if the revision
    /// is not a leaf. Ancestors in `keeping` stop the removal and become leaves.
    @discardableResult
    public mutating func removeBranch(_ leaf: RevisionID, keeping: Set<RevisionID> = []) -> [RevisionID] {
        guard let start = index(of: leaf), nodes[start].isLeaf else { return [] }
        var children = [Int](repeating: 0, count: nodes.count)
        for node in nodes where node.parent >= 0 { children[Int(node.parent)] += 1 }
        var keep = [Bool](repeating: true, count: nodes.count)
        var removed: [RevisionID] = []
        var at = start
        while at >= 0, at == start || children[at] == 1 {
            let current = revision(at: at)
            if at != start, keeping.contains(current) { break }
            keep[at] = false
            removed.append(current)
            at = Int(nodes[at].parent)
        }
        remove(keep)
        return removed
    }

    /// A tree of these revisions, as far as they exist, and all of their ancestors.
    public func branches(to revisions: some Sequence<RevisionID>) -> RevisionTree {
        var keep = [Bool](repeating: false, count: nodes.count)
        for revision in revisions {
            var at = index(of: revision) ?? -1
            while at >= 0, !keep[at] {
                keep[at] = true
                at = Int(nodes[at].parent)
            }
        }
        guard keep.contains(false) else { return self }
        var branches = self
        branches.remove(keep)
        return branches
    }

    /// Keeps only the marked nodes; those left without children become leaves.
    @discardableResult
    private mutating func remove(_ keep: [Bool]) -> Int {
        var places = [Int32](repeating: -1, count: nodes.count)
        var kept: [Node] = []
        var keptDigests: [UInt8] = []
        for index in nodes.indices where keep[index] {
            places[index] = Int32(kept.count)
            var node = nodes[index]
            let range = Int(node.digestStart)..<Int(node.digestStart + node.digestCount)
            node.digestStart = UInt32(keptDigests.count)
            keptDigests.append(contentsOf: digests[range])
            var parent = Int(node.parent)
            while parent >= 0, !keep[parent] { parent = Int(nodes[parent].parent) }
            node.parent = Int32(parent)  // in the old numbers for now
            node.isLeaf = true
            kept.append(node)
        }
        for index in kept.indices where kept[index].parent >= 0 {
            let parent = places[Int(kept[index].parent)]
            kept[index].parent = parent
            kept[Int(parent)].isLeaf = false
        }
        let removed = nodes.count - kept.count
        nodes = kept
        digests = keptDigests
        var named = vectors
        named.keep { contains($0) }
        vectors = named
        return removed
    }
}
