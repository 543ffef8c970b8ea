import { startApp, type TestApp } from "../support/app/app.ts";
import { races } from "../support/races/races.ts";
import { adventureRaces } from "../support/races/adventures.ts";
import { questStepRaces } from "../support/races/quest-steps.ts";
import { economyRaces } from "../support/races/economy.ts";
import { rewardRaces } from "../support/races/rewards.ts";

describe("several at once", () => {
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  for (const { name, run } of [
    ...races,
    ...economyRaces,
    ...rewardRaces,
    ...adventureRaces,
    ...questStepRaces,
  ])
    it(name, () => run({ clients: [api] }));
});
