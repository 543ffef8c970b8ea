import assert from "node:assert/strict";
import fc from "fast-check";
import type { LobbyView, Occurrence } from "../../src/domain/kernel/events/chat-views.ts";
import { LobbyMirror } from "../../src/rooms/lobby-mirror.ts";

const lobbyAt = (version: number) => ({ version }) as LobbyView;
const occurrencesOf = (version: number): Occurrence[] => [
  { name: "lobby.countdown", data: { version } },
  { name: "lobby.started", data: { version } },
];

/** How word of one version comes to a room. */
const wordArbitrary = fc.record({
  own: fc.boolean(),
  relayed: fc.nat({ max: 2 }),
  delay: fc.nat({ max: 6 }),
});

const FAILED_READS_MAX = 3;
/** More work than any test here has: what goes on beyond it would go on for ever. */
const STEPS_MAX = 1_000;

/** A mirror over a lobby that is changed behind its back, and what it shows and tells. */
const watch = (failedReads: number) => {
  let committed = 1;
  let failures = failedReads;
  const seen: string[] = [];
  const due: (() => unknown)[] = [];
  const mirror: LobbyMirror = new LobbyMirror({
    read: async () => {
      if (failures-- > 0) throw new Error("the database is away");
      return lobbyAt(committed);
    },
    show: ({ version }) => void seen.push(`show ${version}`),
    onOccurrence: ({ name, data }) => {
      assert.ok(mirror.version >= (data["version"] as number), "told before it is shown");
      seen.push(`${name} ${Number(data["version"])}`);
    },
    later: (_delayMs, run) => void due.push(run),
    onError: () => undefined,
  });
  const settle = async (): Promise<void> => {
    for (let steps = 0; due.length > 0; steps++) {
      assert.ok(steps < STEPS_MAX, "it comes to rest");
      await due.shift()!();
    }
  };
  const commit = (): number => ++committed;
  return { mirror, seen, settle, commit };
};

describe("the mirror of a lobby", () => {
  it("shows no older version, ends at the newest and tells what it heard once, in any order", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(wordArbitrary, { maxLength: 20 }),
        fc.nat({ max: FAILED_READS_MAX }),
        async (words, failedReads) => {
          const { mirror, seen, settle, commit } = watch(failedReads);
          mirror.start(lobbyAt(1));
          const relayed: { at: number; version: number }[] = [];
          const heard = new Set<number>();
          for (const [at, { own, relayed: times, delay }] of words.entries()) {
            const version = commit();
            if (own) mirror.apply({ lobby: lobbyAt(version), occurrences: occurrencesOf(version) });
            if (own || times > 0) heard.add(version);
            for (let i = 0; i < times; i++) relayed.push({ at: at + delay * i, version });
            for (const notice of relayed.filter((late) => late.at === at))
              mirror.receive({ version: notice.version, occurrences: occurrencesOf(notice.version) });
            if (at % 3 === 0) await settle();
          }
          for (const { version } of relayed.toReversed())
            mirror.receive({ version, occurrences: occurrencesOf(version) });
          mirror.expect(words.length + 1);
          await settle();

          const shown = seen.filter((line) => line.startsWith("show")).map((line) => Number(line.slice(5)));
          assert.equal(shown.at(-1), words.length + 1);
          assert.deepEqual(
            shown,
            [...new Set(shown)].toSorted((a, b) => a - b),
          );
          const told = seen.filter((line) => !line.startsWith("show"));
          const expected = [...heard].flatMap((v) => occurrencesOf(v).map(({ name }) => `${name} ${v}`));
          assert.deepEqual(told.toSorted(), expected.toSorted());
        },
      ),
    ));

  it("does not read for ever for a version that nobody has committed", async () => {
    const { mirror, seen, settle, commit } = watch(0);
    mirror.start(lobbyAt(1));
    mirror.expect(3);
    await settle();
    mirror.expect(commit());
    await settle();
    assert.deepEqual(seen, ["show 1", "show 2"]);
  });

  it("tells nothing of what was before it", async () => {
    const { mirror, seen, settle } = watch(0);
    mirror.receive({ version: 1, occurrences: occurrencesOf(1) });
    mirror.start(lobbyAt(1));
    mirror.receive({ version: 1, occurrences: occurrencesOf(1) });
    await settle();
    assert.deepEqual(seen, ["show 1"]);
  });
});
