import { eventuallyHolds } from "../support/eventually.ts";
import { assertInvariants } from "../support/domain/invariants.ts";
import { races } from "../support/races/races.ts";
import { adventureRaces } from "../support/races/adventures.ts";
import { questStepRaces } from "../support/races/quest-steps.ts";
import { economyRaces } from "../support/races/economy.ts";
import { rewardRaces } from "../support/races/rewards.ts";
import { twoServers, type TwoServers } from "../support/processes/two-servers.ts";

const ROUNDS = 3;

describe("several at once over two processes", () => {
  let two: TwoServers;

  before(async () => {
    two = await twoServers();
  });

  for (const { name, run, isSlow = false } of [
    ...races,
    ...economyRaces,
    ...rewardRaces,
    ...adventureRaces,
    ...questStepRaces,
  ]) {
    it(name, async () => {
      for (let round = 0; round < (isSlow ? 1 : ROUNDS); round++) await run(two);
    });
  }

  it("leave nothing in the queues and every invariant whole", async () => {
    await eventuallyHolds(() => assertInvariants(two.database.em), { timeoutMs: 60_000 });
  });
});
