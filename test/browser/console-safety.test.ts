import assert from "node:assert/strict";
import axe from "axe-core";
import { eventually } from "../support/eventually.ts";
import { madeOnce } from "../support/made.ts";
import { type Person, theConsole } from "../support/browser/console.ts";
import { aScene } from "../support/browser/scene.ts";

/** What a page would run if it took a text for more than a text; harmless where it does. */
const RUN = "__ran=1";
/** What ends the place in which a text may stand. */
const ENDS = [
  "",
  '"',
  "'",
  '">',
  "'>",
  "`",
  "\\",
  "&quot;>",
  "-->",
  "]]>",
  "</title>",
  "</script>",
  "</style>",
  "</textarea>",
];
/** What would then be run. */
const SHAPES = [
  `<script>${RUN}</script>`,
  `<img src=x onerror=${RUN}>`,
  `<svg/onload=${RUN}>`,
  `<a href=javascript:${RUN}>a</a>`,
  `<iframe srcdoc="<script>top.${RUN}</script>">`,
  `<details open ontoggle=${RUN}>`,
  `<input autofocus onfocus=${RUN}>`,
  `<style>@import'//192.0.2.1'`,
  `<base href=//192.0.2.1/>`,
  `<meta http-equiv=refresh content=0;url=//192.0.2.1>`,
  ` onmouseover=${RUN} style=inset:0 `,
  `;${RUN}//`,
  `\${${RUN}}`,
  `{{constructor.constructor('${RUN}')()}}`,
];
/** These stand alone: they would only be more than a text as a whole. */
const WHOLE = [
  `javascript:${RUN}`,
  `JaVaScRiPt:${RUN}//%0a`,
  `data:text/html,<script>${RUN}</script>`,
  "//192.0.2.1/a",
  "url(//192.0.2.1/a)",
  "red;background:url(//192.0.2.1/a)",
  "__proto__",
  "constructor",
  "toString",
  "=cmd|' /C calc'!A1",
  "\u202egnihtemos\u2066 else",
  "W".repeat(80),
];
const NAME_MAX = 100;

/** As many texts in a line as a name may have of characters; the short ones fill what the long ones leave. */
const packed = (texts: readonly string[]): string[] => {
  const lines: string[] = [];
  for (const text of texts) {
    const longer = `${lines.at(-1) ?? ""} ${text}`.trim();
    if (lines.length > 0 && longer.length <= NAME_MAX) lines[lines.length - 1] = longer;
    else lines.push(text.trim());
  }
  return lines;
};

const TEXTS = ENDS.flatMap((end) => SHAPES.map((shape) => end + shape));
// Lists that go on by a cursor show the last ones first.
const HOSTILE = [...packed(TEXTS), ...WHOLE];

type Finding = { impact: string; id: string; nodes: { html: string; failureSummary: string }[] };

/** Colours on their way to others are not those that a person reads. */
const IS_STILL = `document.getAnimations()
  .every(({ effect, playState }) => playState !== "running" || effect.getComputedTiming().endTime === Infinity)`;

/** No further page follows the one that is shown. */
const IS_LAST = `document.querySelector("[aria-label='Next page']")?.disabled !== false`;

const OPENER = "main button[aria-haspopup=dialog]:not(:disabled)";
const OPENERS = `[...document.querySelectorAll("${OPENER}")].map((one) => one.innerText)`;
const DIALOG = "[role=dialog]";
/** A dialog is there with all that it reads. */
const IS_OPEN = `document.querySelector("${DIALOG} button[type=submit], ${DIALOG} input, ${DIALOG} p") !== null
  && document.querySelector("${DIALOG} [aria-busy=true]") === null`;
/** Whoever opened it types into its first field at once, if it has one. */
const BEGINS = `[document.querySelector('${DIALOG} form :is(input:not([type=radio], [type=hidden]), textarea, select)')]
  .every((field) => field === null || field === document.activeElement)`;

describe("the screens of the console", () => {
  const { api, aPerson, at } = theConsole();
  const scene = madeOnce(() => aScene(api, HOSTILE));

  /** What is serious or critical, in light and in dark. @param part of the page, as a selector */
  const problemsOf = async ({ page }: Person, path: string, part = "html"): Promise<string[]> => {
    const problems: string[] = [];
    for (const scheme of ["light", "dark"]) {
      await page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }]);
      const isScheme = `document.documentElement.dataset.mantineColorScheme === "${scheme}"`;
      await eventually(() => page.evaluate(`${isScheme} && ${IS_STILL}`), { label: `${path} is ${scheme}` });
      const found = (await page.evaluate(
        `axe.run("${part}").then(({ violations }) => violations)`,
      )) as Finding[];
      for (const { impact, id, nodes } of found)
        if (impact === "serious" || impact === "critical")
          problems.push(`${path} in ${scheme}: ${id}, ${nodes[0]!.failureSummary} at ${nodes[0]!.html}`);
    }
    return problems;
  };
  const visit = async (person: Person, path: string): Promise<string> => {
    await person.visit(path);
    assert.equal(await person.page.evaluate("window.__ran"), undefined, path);
    const text = await person.text();
    assert.doesNotMatch(text, /This screen has failed|There is no such page/, path);
    return text;
  };
  /** Opens screens one after the other; their texts must have run nothing. */
  const assertSound = async (person: Person, paths: readonly string[]): Promise<void> => {
    await person.page.evaluate(axe.source);
    const problems: string[] = [];
    for (const path of paths) {
      await visit(person, path);
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

  it("show on all pages of their lists what was written, letter by letter, and run nothing of it", async function () {
    this.timeout(900_000);
    const ada = await at(scene.game.tenant, "/start");
    let players = "";
    for (const path of scene.screens.lists)
      for (let page = 1, isLast = false; !isLast; page++) {
        const text = await visit(ada, `${path}${path.includes("?") ? "&" : "?"}page=${page}`);
        if (path.endsWith("/players")) players += text.replaceAll(/\s+/g, " ");
        isLast = (await ada.page.evaluate(IS_LAST)) as boolean;
      }
    for (const text of HOSTILE) assert.ok(players.includes(text.replaceAll(/\s+/g, " ")), text);
  });

  it("open dialogs that are for everybody", async function () {
    this.timeout(900_000);
    const ada = await at(scene.game.tenant, "/start");
    const { page } = ada;
    await page.evaluate(axe.source);
    const seen = new Set<string>();
    const problems: string[] = [];
    for (const path of [...scene.screens.project, ...scene.screens.account]) {
      await visit(ada, path);
      const labels = (await page.evaluate(OPENERS)) as string[];
      for (const [index, label] of labels.entries()) {
        if (seen.has(label)) continue;
        seen.add(label);
        await page.evaluate(`document.querySelectorAll("${OPENER}")[${index}].click()`);
        await eventually(() => page.evaluate(`${IS_OPEN} && ${IS_STILL}`), { label: `${label} at ${path}` });
        await eventually(() => page.evaluate(BEGINS), { label: `${label} at ${path} begins` });
        problems.push(...(await problemsOf(ada, `${label} at ${path}`, DIALOG)));
        await page.evaluate(`document.querySelector("${DIALOG} [aria-label=Close]").click()`);
        await eventually(() => page.evaluate(`document.querySelector("${DIALOG}") === null`));
      }
    }
    assert.ok(seen.size > 30, [...seen].join());
    assert.deepEqual(problems, []);
  });
});
