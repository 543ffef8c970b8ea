import { randomInt } from "node:crypto";
import { startApp } from "../app/app.ts";
import { madeOnce } from "../made.ts";
import { startFakeGithub } from "./fake-github.ts";
import { startOAuthServer } from "./oauth.ts";

/** A server on which people sign in with GitHub, for the tests of one `describe`. */
export const githubServer = () => {
  const api = madeOnce(startApp);
  const github = madeOnce(startFakeGithub);
  const server = madeOnce(() => startOAuthServer(api, async () => ({ google: undefined, github })));
  after(async () => {
    await server.close();
    await github.close();
  });
  /** Makes an account at GitHub, with one address, which is proved. */
  const addPerson = (login: string, email: string): void => {
    const emails = [{ email, primary: true, verified: true, visibility: null }];
    github.people.set(login, { id: randomInt(2 ** 40), name: "Ada Byron", email: null, emails });
  };
  return { api, github, server, addPerson };
};
