import { findingsOf } from "../support/domain/domain.ts";
import assert from "node:assert/strict";
import fc from "fast-check";
import { startApp } from "../support/app/app.ts";
import { aQuestGame, manual, type QuestGame, stepActs } from "../support/quests/quest-game.ts";
import { cases } from "../support/properties.ts";

const TARGET = 3;
const MOVES = ["submit", "APPROVE", "REJECT", "reset", "abandon", "start"] as const;
type Move = (typeof MOVES)[number];

/** What is expected of a quest of one step: by plain rules, without the service. */
type Model = { state: string; value: number; waiting: number; withdrawn: number; decided: number };

/** What is over leaves nothing that waits. @returns whether it was in progress */
const end = (model: Model, state: string): boolean => {
  if (model.state !== "IN_PROGRESS") return false;
  const withdrawn = model.withdrawn + model.waiting;
  Object.assign(model, { state, value: 0, waiting: 0, withdrawn });
  return true;
};

const decide = (model: Model, isApproved: boolean): boolean => {
  if (model.state !== "IN_PROGRESS" || model.waiting === 0) return false;
  model.waiting--;
  model.decided++;
  if (isApproved && ++model.value === TARGET) model.state = "CLAIMED";
  return true;
};

/** Makes a move in the model. @returns whether the service accepts it */
const MODEL: Readonly<Record<Move, (model: Model) => boolean>> = {
  submit: (model) => {
    if (model.state !== "IN_PROGRESS" || model.value + model.waiting >= TARGET) return false;
    model.waiting++;
    return true;
  },
  APPROVE: (model) => decide(model, true),
  REJECT: (model) => decide(model, false),
  reset: (model) => end(model, "RESET"),
  abandon: (model) => end(model, "ABANDONED"),
  start: (model) => {
    if (model.state !== "ABANDONED") return false;
    model.state = "IN_PROGRESS";
    return true;
  },
};

describe("histories of submissions", () => {
  let game: QuestGame;
  const { submit, review, queue } = stepActs(() => game);

  before(async () => {
    game = await aQuestGame(await startApp());
    await game.publish({
      key: "long",
      steps: [manual("do", { target: TARGET, requiresApproval: true })],
      rewards: { xp: 10 },
    });
  });

  const send = async (what: Move): Promise<boolean> => {
    const answer =
      what === "submit"
        ? await submit("long", "do")
        : what === "APPROVE" || what === "REJECT"
          ? await review("long", "do", { decision: what })
          : await game.act("long", what);
    assert.ok(answer.status === 200 || answer.status === 409, JSON.stringify(answer.body));
    return answer.status === 200;
  };

  /** The quest starts at once, and again after a reset, when somebody looks. */
  const look = async (model: Model): Promise<void> => {
    await game.questOf("long");
    if (model.state === "RESET") model.state = "IN_PROGRESS";
  };

  /** The same as the model has, of what the service shows. */
  const seen = async (player: string): Promise<Model> => {
    const { state, steps } = await game.questOf("long");
    const found = await queue(`playerId=${player}&limit=100`);
    const count = (...statuses: string[]): number =>
      found.filter(({ status }) => statuses.includes(String(status))).length;
    return {
      state,
      value: state === "ABANDONED" ? 0 : steps[0].value,
      waiting: count("PENDING"),
      withdrawn: count("WITHDRAWN"),
      decided: count("APPROVED", "REJECTED"),
    };
  };

  it("come to what plain rules say, and the queue agrees with the quest", async () => {
    const moves = fc.array(fc.constantFrom(...MOVES, "submit" as const, "APPROVE" as const), {
      minLength: 1,
      maxLength: 14,
    });
    await fc.assert(
      fc.asyncProperty(moves, async (history) => {
        const player = await game.newPlayer();
        const model: Model = { state: "IN_PROGRESS", value: 0, waiting: 0, withdrawn: 0, decided: 0 };
        await look(model);
        for (const what of history) {
          assert.equal(await send(what), MODEL[what](model), `${what} of ${history.join()}`);
          await look(model);
        }
        assert.deepEqual(await seen(player), model, history.join());
        assert.equal(await game.xp(), model.state === "CLAIMED" ? 10 : 0);
      }),
      { numRuns: cases(25) },
    );
    assert.deepEqual(await findingsOf(game.api.app, game.tenant.projectId), []);
  });
});
