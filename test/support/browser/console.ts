import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Browser, ElementHandle, HTTPRequest, Page } from "puppeteer-core";
import { startApp, type Tenant, type TestApp } from "../app/app.ts";
import { eventually } from "../eventually.ts";
import { anAddress } from "../http/client.ts";
import { madeOnce, skipUnless } from "../made.ts";
import { launchChromium, needChromium } from "./chromium.ts";

const ROOT = join(import.meta.dirname, "../../..");
/** Installing its packages and building the console, on slow cores. */
const BUILD_LIMIT_MS = 600_000;
/** What a person waits for at most, on slow cores. */
const WAIT_MS = 60_000;

let built: Promise<boolean> | undefined;

/** False: its packages cannot be installed here. */
const build = async (): Promise<boolean> => {
  try {
    await promisify(execFile)(process.execPath, ["scripts/console.mjs"], { cwd: ROOT });
    return true;
  } catch (error) {
    if (/npm ci .*failed/.test(String((error as { stderr?: string }).stderr))) return false;
    throw error;
  }
};

const needConsole = async (context: Mocha.Context): Promise<void> => {
  needChromium(context);
  context.timeout(BUILD_LIMIT_MS);
  built ??= build();
  skipUnless(await built, context, "the tests of the console need its packages, which npm cannot install");
};

/** What is asked of elements: the types of the browser are not there. */
type Shown = {
  tagName: string;
  type?: string;
  disabled?: boolean;
  labels?: ArrayLike<Shown>;
  contains(other: unknown): boolean;
  matches(selector: string): boolean;
  scrollIntoView(how: object): void;
  getBoundingClientRect(): { x: number; y: number; width: number; height: number };
  ownerDocument: { elementFromPoint(x: number, y: number): unknown };
};

const PRESSED = "button, a, tr, input, label, [role=tab], [role=option], [role=menuitem]";
const TYPED = "input, textarea";

/** Whether a person could click on it now: it is one of `selector`, seen, enabled, and under nothing else. */
const isReachable = (handle: ElementHandle, selector: string): Promise<boolean> =>
  handle.evaluate((element, wanted) => {
    const shown = element as unknown as Shown;
    if (!shown.matches(wanted) || shown.disabled) return false;
    shown.scrollIntoView({ block: "center", behavior: "instant" });
    const { x, y, width, height } = shown.getBoundingClientRect();
    const top = shown.ownerDocument.elementFromPoint(x + width / 2, y + height / 2);
    return width > 0 && height > 0 && shown.contains(top);
  }, selector);

/** A switch or one of several buttons is drawn by its label; the input itself has no size. */
const drawnOf = async (handle: ElementHandle): Promise<ElementHandle> => {
  const drawn = await handle.evaluateHandle((element) => {
    const shown = element as unknown as Shown;
    const isHidden = shown.type === "radio" || shown.type === "checkbox";
    return (isHidden && shown.labels?.[0]) || shown;
  });
  return drawn;
};

/** A screen has its title, and nothing on it is still being read. */
const IS_THERE = `document.querySelector("h1") !== null
  && document.querySelector("[aria-busy=true], [aria-label=Loading]") === null`;

const named = (name: string): string => `::-p-aria([name=${JSON.stringify(name)}])`;

/** Notes what no page of the console may do: errors, requests elsewhere, what its policy forbids, dialogs. */
const watch = async (page: Page, url: string, faults: string[]): Promise<void> => {
  const isOwn = (request: HTTPRequest) =>
    /^(data|blob):/.test(request.url()) || request.url().startsWith(url);
  page.on("pageerror", (error) => faults.push(`error: ${String(error)}`));
  page.on("dialog", (dialog) => {
    faults.push(`dialog: ${dialog.message()}`);
    void dialog.dismiss();
  });
  page.on("console", (message) => {
    const text = message.text();
    // Answers of the API that refuse are logged by the browser; pages show them.
    if (message.type() === "error" && !text.startsWith("Failed to load resource")) faults.push(text);
  });
  page.on("request", (request) => {
    if (!isOwn(request)) faults.push(`request: ${request.url()}`);
  });
  page.on("response", (response) => {
    if (response.status() >= 500) faults.push(`${response.status()}: ${response.url()}`);
  });
  await page.evaluateOnNewDocument(`addEventListener("securitypolicyviolation", (event) =>
    console.error("policy: " + event.violatedDirective + " " + event.blockedURI + " " + event.sample))`);
};

/** Somebody with a browser of their own: they name what they press and fill in as the page shows it. */
export type Person = Awaited<ReturnType<typeof aPerson>>;

const aPerson = async (browser: Browser, url: string, downloadPath?: string) => {
  const context = await browser.createBrowserContext(
    downloadPath === undefined ? {} : { downloadBehavior: { policy: "allow", downloadPath } },
  );
  const page = await context.newPage();
  const faults: string[] = [];
  await watch(page, url, faults);
  /** What the API has refused, for whoever reads why a test failed. */
  const refused: string[] = [];
  page.on("response", (response) => {
    if (response.status() >= 400) refused.push(`${response.status()} ${response.url()}`);
  });
  await page.setViewport({ width: 1360, height: 900 });
  await page.setExtraHTTPHeaders({ "X-Forwarded-For": anAddress() });

  const text = async (): Promise<string> => String(await page.evaluate("document.body.innerText"));
  const waitFor = (what: string, look: () => Promise<boolean>): Promise<unknown> =>
    eventually(look, { timeoutMs: WAIT_MS, label: what }).catch(async (cause: unknown) => {
      const seen = `${page.url()}, which shows:\n${await text()}\nRefused: ${refused.join("\n")}`;
      throw new Error(`${what} at ${seen}`, { cause });
    });
  const holds = async (what: string, isSo: (shown: string) => boolean): Promise<void> => {
    await waitFor(what, async () => isSo(await text()));
  };
  const has = (shown: string, wanted: string | RegExp): boolean =>
    typeof wanted === "string" ? shown.includes(wanted) : wanted.test(shown);

  /** The first of what is found that a person could click on. */
  const reachable = async (row: string | undefined, selector: string, kinds: string) => {
    const root = row === undefined ? page : await page.$(`::-p-xpath(//tr[contains(., ${quoted(row)})])`);
    for (const found of (await root?.$$(selector)) ?? []) {
      const handle = await drawnOf(found);
      if (await isReachable(handle, kinds)) return handle;
    }
    return undefined;
  };
  const click = async (what: string, find: () => ReturnType<typeof reachable>): Promise<void> => {
    const look = async () => {
      const handle = await find();
      await handle?.click();
      return handle !== undefined;
    };
    await waitFor(what, look);
  };

  const person = {
    page,
    faults,
    text,
    /** Opens an address of the console, as a link from elsewhere does. */
    open: async (path: string): Promise<void> => void (await page.goto(`${url}/console${path}`)),
    /** Goes on within the console, as its links do, and waits until all of the screen is there. */
    visit: async (path: string): Promise<void> => {
      await page.evaluate(`history.pushState(null, "", ${JSON.stringify(`/console${path}`)})`);
      await page.waitForNetworkIdle({ idleTime: 200 });
      await waitFor(`${path} is to be there`, async () => Boolean(await page.evaluate(IS_THERE)));
    },
    /** Waits until the page shows a text. */
    sees: (wanted: string | RegExp) =>
      holds(`${String(wanted)} is to be seen`, (shown) => has(shown, wanted)),
    /** Waits until the page does not show a text any more. */
    seesNo: (wanted: string | RegExp) =>
      holds(`${String(wanted)} is to be gone`, (shown) => !has(shown, wanted)),
    /** Presses a button, link, tab or entry of a menu; in the row of a table that has the text `row`. */
    press: (name: string, row?: string) =>
      click(`"${name}" is to be pressed`, () => reachable(row, named(name), PRESSED)),
    /** Opens what a row of a table is about. */
    pressRow: (row: string) =>
      click(`the row of "${row}" is to be pressed`, () =>
        reachable(undefined, `::-p-xpath(//tr[contains(., ${quoted(row)})])`, "tr"),
      ),
    /** Types into a field, in the place of what is there, and goes on with `key`. */
    fill: async (label: string, value: string, key: "Tab" | "Enter" = "Tab"): Promise<void> => {
      await click(`"${label}" is to be filled in`, () => reachable(undefined, named(label), TYPED));
      await page.keyboard.down("Control");
      await page.keyboard.press("a");
      await page.keyboard.up("Control");
      await page.keyboard.type(value);
      await page.keyboard.press(key);
    },
    /** Chooses from a list that opens. */
    choose: async (label: string, option: string): Promise<void> => {
      await click(`"${label}" is to be opened`, () => reachable(undefined, named(label), TYPED));
      await click(`"${option}" is to be chosen`, () => reachable(undefined, named(option), "[role=option]"));
    },
    /** Signs in where they are, or at the page for it. */
    signIn: async ({ email, password }: Pick<Tenant, "email" | "password">): Promise<void> => {
      if (page.url() === "about:blank") await person.open("/login");
      await person.fill("Email", email);
      await person.fill("Password", password, "Enter");
      await person.sees("Audit log");
    },
  };
  return person;
};

/** A text in XPath, which has no escapes. */
const quoted = (value: string): string => `concat("", "${value.replaceAll('"', `", '"', "`)}")`;

/** The console of the shared server, and a browser of a `describe`'s own. */
export type TheConsole = {
  api: TestApp;
  /**
   * @param downloads a folder for what they save
   * @param url of another server than the shared one
   */
  aPerson(downloads?: string, url?: string): Promise<Person>;
  /** Somebody who has signed in and looks at a screen of the tenant's project. */
  at(tenant: Tenant, path: string, downloads?: string): Promise<Person>;
};

/** Declares it; after each test, nobody's page may have done what pages of the console never do. */
export const theConsole = (): TheConsole => {
  before(async function () {
    await needConsole(this);
  });
  const api = madeOnce(startApp);
  const browser = madeOnce(launchChromium, (made) => made.close());
  const people: Person[] = [];
  const newPerson = async (downloads?: string, url = api.url): Promise<Person> => {
    const person = await aPerson(browser, url, downloads);
    people.push(person);
    return person;
  };
  afterEach(async () => {
    const here = people.splice(0);
    for (const { page } of here) await page.browserContext().close();
    assert.deepEqual(
      here.flatMap(({ faults }) => faults),
      [],
    );
  });
  return {
    api,
    aPerson: newPerson,
    at: async (tenant, path, downloads) => {
      const person = await newPerson(downloads);
      await person.open(`/p/${tenant.projectId}${path}`);
      await person.signIn(tenant);
      return person;
    },
  };
};
