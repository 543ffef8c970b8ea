import { startApp, type TestApp } from "../support/app.ts";
import { races } from "../support/races.ts";
import { economyRaces } from "../support/races-economy.ts";

describe("several at once", function () {
  this.timeout(30_000);
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  for (const { name, run } of [...races, ...economyRaces]) it(name, () => run({ clients: [api] }));
});
