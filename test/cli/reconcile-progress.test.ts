import assert from "node:assert/strict";
import { PassThrough } from "node:stream";
import { createReconcileReporter } from "../../src/cli/reconcile-progress.ts";
import { eventually } from "../support/eventually.ts";

const FINDING = {
  invariant: "I1",
  projectId: "p",
  playerId: "ada",
  message: "the player has 151 XP, the ledger says 150",
  isRepairable: true,
  isRepaired: false,
} as const;
const SUM = { projects: 1, players: 400, findings: 1, repaired: 0, open: 1 };

/** What a reporter writes, with half of the progress reported until it is enough. */
const reported = async (
  { json = false, isTTY = false },
  isEnough: (written: { out: string; err: string }, reports: number) => boolean,
) => {
  const written = { out: "", err: "" };
  const [out, err] = [new PassThrough(), Object.assign(new PassThrough(), { isTTY })];
  out.on("data", (chunk: Buffer) => (written.out += chunk.toString()));
  err.on("data", (chunk: Buffer) => (written.err += chunk.toString()));
  const reporter = createReconcileReporter({ json }, { out, err });
  let reports = 0;
  await eventually(async () => {
    reporter.onProgress({ players: 200, total: 400 });
    return isEnough(written, ++reports);
  });
  reporter.onFinding(FINDING);
  reporter.onProgress({ players: 400, total: 400 });
  reporter.stop();
  reporter.finish(SUM);
  await eventually(async () => written.out.includes("400"));
  return written;
};

describe("the progress of laurel reconcile", () => {
  it("is one line on a terminal, which leaves the lines of findings alone", async () => {
    const { out, err } = await reported({ isTTY: true }, (written) => written.err.includes("50 %"));
    assert.equal(err, "\r\u001b[Kreconcile  50 %  200 of 400 players\r\u001b[K");
    assert.equal(
      out,
      "found     I1  p ada  the player has 151 XP, the ledger says 150\n" +
        "400 players of 1 projects: 1 findings, 0 repaired\n",
    );
  });

  it("is a line from time to time elsewhere, apart from the result", async () => {
    const { out, err } = await reported({}, (written) => written.err !== "");
    assert.equal(err, "reconcile  50 %  200 of 400 players\n");
    assert.match(out, /^found .*\n400 players .*\n$/);
  });

  it("is left out of JSON, which has findings and the sum alone", async () => {
    const { out, err } = await reported({ json: true }, (_, reports) => reports > 3);
    assert.equal(err, "");
    const lines = out.trim().split("\n");
    assert.deepEqual(
      lines.map((line) => JSON.parse(line) as unknown),
      [FINDING, SUM],
    );
  });
});
