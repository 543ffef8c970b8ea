import assert from "node:assert/strict";
import { spawnSync } from "node:child_process";

/** What stands for an object from before it is there: what is asked of it, is asked of the object. */
const standIn = <T extends object>(): { made: T; put(object: T): void } => {
  let object: T | undefined;
  const there = (): T => {
    assert(object, "it is there once its hook has run");
    return object;
  };
  const made = new Proxy({} as T, {
    get: (_, name) => {
      const value: unknown = Reflect.get(there(), name);
      return typeof value === "function" ? value.bind(there()) : value;
    },
    set: (_, name, value) => Reflect.set(there(), name, value),
    has: (_, name) => Reflect.has(there(), name),
    ownKeys: () => Reflect.ownKeys(there()),
    getOwnPropertyDescriptor: (_, name) => Reflect.getOwnPropertyDescriptor(there(), name),
    getPrototypeOf: () => Reflect.getPrototypeOf(there()),
  });
  return { made, put: (value) => void (object = value) };
};

/**
 * An object that a `describe` declares, made once before its tests: it is there in the hooks that follow.
 * @param end what becomes of it after the tests
 */
export const madeOnce = <T extends object>(make: () => T | Promise<T>, end?: (made: T) => unknown): T => {
  const { made, put } = standIn<T>();
  let isMade = false;
  before(async () => {
    put(await make());
    isMade = true;
  });
  if (end)
    after(async () => {
      if (isMade) await end(made);
    });
  return made;
};

/** As `madeOnce`, made anew before each test. */
export const madeForEach = <T extends object>(make: () => T | Promise<T>): T => {
  const { made, put } = standIn<T>();
  beforeEach(async () => put(await make()));
  return made;
};

type Call = (...given: unknown[]) => unknown;
// oxlint-disable-next-line typescript/no-explicit-any -- functions of every shape
type CallsOf<T> = { [K in keyof T as T[K] extends (...given: any[]) => unknown ? K : never]: T[K] };

/** The functions of an object that a hook makes, to be taken out of it before it is there. */
export const callsOf = <T extends object>(made: T): CallsOf<T> =>
  new Proxy({} as CallsOf<T>, {
    get:
      (_, name) =>
      (...given: unknown[]) =>
        (made as Record<string | symbol, Call>)[name]!(...given),
  });

/**
 * Skips a suite where what it needs is missing, unless everything has to be there: then it fails.
 * @param what names it for the failure, such as `the browser tests need Chromium`
 */
export const skipUnless = (isThere: boolean, context: Mocha.Context, what: string): void => {
  if (isThere) return;
  assert.ok(!process.env["REQUIRE_SERVICES"], what);
  context.skip();
};

/** Skips a suite that runs commands where one of them is missing. */
export const skipWithout = (context: Mocha.Context, ...commands: readonly string[]): void => {
  const isHere = (command: string) => spawnSync(command, ["--version"]).status === 0;
  if (!commands.every(isHere)) context.skip();
};

/** Says behind the name of the running test what it has measured. */
export const tell = ({ test }: Mocha.Context, text: string): void => {
  if (test) test.title += ` (${text})`;
};
