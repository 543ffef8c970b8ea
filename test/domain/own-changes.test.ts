import assert from "node:assert/strict";
import type { RankStore } from "../../src/domain/evaluation/boards/ranks.ts";
import type { EntryChange } from "../../src/domain/kernel/events/events.ts";
import { newId } from "../../src/domain/kernel/ids.ts";
import { OwnChanges } from "../../src/domain/kernel/own-changes.ts";
import { withOwnChanges } from "../../src/domain/leaderboards/rank-moves.ts";

describe("what a process has changed itself", () => {
  const of = (entries: EntryChange[], periodId = "list") => ({ projectId: "p", periodId, entries });

  it("are entries by their newest versions, until they are taken or in the index", () => {
    const changes = new OwnChanges();
    changes.keepEntries(of([["ada", 1, 0, 2]]));
    changes.keepEntries(
      of([
        ["ada", 9, 0, 1],
        ["bob", 3, 0, 1],
      ]),
    );
    changes.areInIndex(
      of([
        ["bob", 3, 0, 1],
        ["ada", 9, 0, 1],
      ]),
    );
    assert.deepEqual(changes.takeEntries("p", "list"), [["ada", 1, 0, 2]]);
    assert.deepEqual(changes.takeEntries("p", "list"), []);
  });

  it("are counted for a project, and for hardly any other", () => {
    const changes = new OwnChanges();
    const others = Array.from({ length: 100 }, newId);
    const before = others.map((id) => changes.countOf(id));
    const own = newId();
    const count = changes.countOf(own);
    changes.note(own);
    assert.notEqual(changes.countOf(own), count);
    const touched = others.filter((id, n) => changes.countOf(id) !== before[n]);
    assert.ok(touched.length < 5, `${touched.length} of 100`);
  });

  it("are counted when a list is read again or dropped, and shown as it was no longer", async () => {
    const changes = new OwnChanges();
    const store = { rebuild: async () => undefined, drop: async () => undefined } as unknown as RankStore;
    const ranks = withOwnChanges(store, { changes, topics: { publish: () => undefined } });
    const counts = [changes.countOf("p")];
    await ranks.rebuild({ projectId: "p", periodId: "list", ties: "EARLIEST" });
    counts.push(changes.countOf("p"));
    await ranks.drop("p", "list");
    counts.push(changes.countOf("p"));
    assert.equal(new Set(counts).size, 3, counts.join(", "));
  });

  it("are bounded: of too many entries the oldest lists are left to the relay", () => {
    const changes = new OwnChanges();
    for (let list = 0; list < 200; list++) {
      const entries = Array.from({ length: 100 }, (_, n): EntryChange => [`player-${n}`, n, 0, 1]);
      changes.keepEntries(of(entries, `list-${list}`));
    }
    assert.deepEqual(changes.takeEntries("p", "list-0"), []);
    assert.equal(changes.takeEntries("p", "list-199").length, 100);
  });
});
