import { startApp, type TestApp } from "../support/app.ts";
import { races } from "../support/races.ts";

describe("several at once", function () {
  this.timeout(30_000);
  let api: TestApp;
  before(async () => {
    api = await startApp();
  });

  for (const { name, run } of races) it(name, () => run({ clients: [api] }));
});
