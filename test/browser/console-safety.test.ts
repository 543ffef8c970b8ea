import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";
import { type Person, theConsole } from "../support/browser/console.ts";
import { aScene } from "../support/browser/scene.ts";

/** What a page would run if it took a text for more than a text; harmless where it does. */
const RUN = "window.__ran=true";
const HOSTILE = [
  `<script>${RUN}</script>`,
  `<img src=x onerror="${RUN}">`,
  `<svg/onload=${RUN}>`,
  `"><script>${RUN}</script>`,
  `' onmouseover='${RUN}' x='`,
  `javascript:${RUN}`,
  `JaVaScRiPt:${RUN}//%0a`,
  `data:text/html,<script>${RUN}</script>`,
  `{{constructor.constructor('${RUN}')()}}`,
  `$\{${RUN}}`,
  `#{${RUN}}`,
  `<%= ${RUN} %>`,
  `<iframe srcdoc="<script>parent.__ran=true</script>">`,
  `<a href="javascript:${RUN}">a</a>`,
  `<details open ontoggle=${RUN}>`,
  `<style>@import 'http://192.0.2.1/a.css'</style>`,
  `<base href="http://192.0.2.1/">`,
  `<meta http-equiv=refresh content="0;url=http://192.0.2.1/">`,
  `<input autofocus onfocus=${RUN}>`,
  `</title><script>${RUN}</script>`,
  `--><script>${RUN}</script><!--`,
  `]]><script>${RUN}</script>`,
  "\u202egnihtemos\u2066 else",
  "W".repeat(80),
  "__proto__",
  "=cmd|' /C calc'!A1",
];

const AXE = readFileSync(join(import.meta.dirname, "../../console/node_modules/axe-core/axe.min.js"), "utf8");

type Finding = { impact: string; id: string; nodes: { html: string; failureSummary: string }[] };

/** Colours on their way to others are not those that a person reads. */
const IS_STILL = `document.getAnimations()
  .every(({ effect, playState }) => playState !== "running" || effect.getComputedTiming().endTime === Infinity)`;

describe("the screens of the console", () => {
  const { api, aPerson, at } = theConsole();
  const scene = madeOnce(() => aScene(api, HOSTILE));

  /** What is serious or critical, in light and in dark. */
  const problemsOf = async ({ page }: Person, path: string): Promise<string[]> => {
    const problems: string[] = [];
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const isScheme = `document.documentElement.dataset.mantineColorScheme === "${scheme}"`;
      await eventually(() => page.evaluate(`${isScheme} && ${IS_STILL}`), { label: `${path} is ${scheme}` });
      const found = (await page.evaluate("axe.run().then(({ violations }) => violations)")) as Finding[];
      for (const { impact, id, nodes } of found)
        if (impact === "serious" || impact === "critical")
          problems.push(`${path} in ${scheme}: ${id}, ${nodes[0]!.failureSummary} at ${nodes[0]!.html}`);
    }
    return problems;
  };
  /** Opens screens one after the other; their texts must have run nothing. */
  const assertSound = async (person: Person, paths: readonly string[]): Promise<void> => {
    await person.page.evaluate(AXE);
    const problems: string[] = [];
    for (const path of paths) {
      await person.visit(path);
      assert.equal(await person.page.evaluate("window.__ran"), undefined, path);
      assert.doesNotMatch(await person.text(), /This screen has failed|There is no such page/, path);
      problems.push(...(await problemsOf(person, path)));
    }
    assert.deepEqual(problems, []);
  };

  it("of a project are for everybody, and run nothing of what players and integrators write", async function () {
    this.timeout(900_000);
    await assertSound(await at(scene.game.tenant, "/start"), scene.screens.project);
  });

  it("of an account are for everybody", async function () {
    this.timeout(300_000);
    await assertSound(await at(scene.game.tenant, "/start"), scene.screens.account);
  });

  it("of whoever is not signed in are for everybody", async function () {
    this.timeout(300_000);
    const somebody = await aPerson();
    await somebody.open("/login");
    await assertSound(somebody, ["/login", "/superadmin", ...scene.screens.open]);
  });

  it("show what was written, letter by letter", async () => {
    const ada = await at(scene.game.tenant, "/players");
    for (const text of HOSTILE.slice(2, 20)) await ada.sees(text);
  });
});
