import assert from "node:assert/strict";
import { assertError } from "../http/assert-error.ts";
import { aBrowser, type Browser, told } from "./oauth.ts";

const NO_TOKENS = ["error", "error_description"];

/** An answer that sends the browser nowhere. */
export const answerOf = async (browser: Browser, url: string) => {
  const { status, body, headers } = await browser.visit(url);
  assert.equal(headers.get("location"), null);
  return { status, headers, body: JSON.parse(body) };
};

/** What the console is told at the end of the way. */
export const endOf = async (browser: Browser, url: string): Promise<Record<string, string>> =>
  told((await browser.go(url)).at);

/** Asserts that the console was told of an error, and of nothing else. */
export const assertRefused = (answer: Record<string, string>, error = "provider_error"): void => {
  assert.deepEqual(Object.keys(answer).toSorted(), NO_TOKENS);
  assert.equal(answer["error"], error, answer["error_description"]);
};

/** The address with another value of a parameter, or without it. */
export const changed = (url: string, name: string, value?: string): string => {
  const copy = new URL(url);
  copy.searchParams.delete(name);
  if (value !== undefined) copy.searchParams.set(name, value);
  return copy.href;
};

/** Asserts that a callback is refused without the cookies of its flow, whatever other flow was begun. */
export const assertOfOneBrowser = async (
  toCallback: (browser: Browser) => Promise<string>,
): Promise<void> => {
  const attacker = aBrowser();
  const callback = await toCallback(attacker);
  const victim = aBrowser();
  assertError(await answerOf(victim, callback), 400, "OAUTH_STATE_INVALID");
  await toCallback(victim);
  assertError(await answerOf(victim, callback), 400, "OAUTH_STATE_INVALID");
};

/** Asserts that states that are no flow's, or that are there twice, are refused. */
export const assertStateNeeded = async (browser: Browser, callback: string): Promise<void> => {
  for (const state of ["unknown", "", undefined, "x".repeat(43)])
    assertError(await answerOf(browser, changed(callback, "state", state)), 400, "OAUTH_STATE_INVALID");
  assertError(await answerOf(browser, `${callback}&state=other`), 400);
};

/** Signs in, and asserts that the browser cannot do so again, although it has kept its cookies. */
export const assertCountsOnce = async (browser: Browser, callback: string): Promise<void> => {
  const { origin } = new URL(callback);
  const cookies = new Map(browser.cookies.get(origin));
  assert("access_token" in (await endOf(browser, callback)));
  browser.cookies.set(origin, cookies);
  assertError(await answerOf(browser, callback), 400, "OAUTH_STATE_INVALID");
};
