import { useSyncExternalStore } from "react";
import { type Answer, ApiError, call, credentials, type Id, onExpired } from "./client.ts";
import { queryClient } from "./hooks.ts";

export type Account = Answer<"getAccount">;
/** A super-admin belongs to no tenant and signs in anew after a reload: the platform keeps no cookie of them. */
export type Admin = Answer<"getSuperadmin">;

type Session =
  | { status: "loading" }
  | { status: "out"; why?: string }
  | { status: "in"; account: Account }
  | { status: "admin"; admin: Admin };

let session: Session = { status: "loading" };
const listeners = new Set<() => void>();

const set = (next: Session): void => {
  session = next;
  for (const listener of listeners) listener();
};

export const useSession = (): Session =>
  useSyncExternalStore(
    (listener) => {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    () => session,
  );

/** The account of whoever is signed in; only screens behind the sign-in ask. */
export const useAccount = (): Account => {
  const now = useSession();
  if (now.status !== "in") throw new Error("Nobody is signed in");
  return now.account;
};

/** Says whether the signed-in person may call an operation. */
export const useCan = (): ((id: Id) => boolean) => {
  const now = useSession();
  if (now.status === "admin") return () => true;
  const allowed = now.status === "in" ? new Set(now.account.permissions) : new Set<string>();
  return (id) => allowed.has(id);
};

let renewing: Promise<boolean> | undefined;

/** Gets an access token for the session's cookie; one request however many ask. */
const renew = (): Promise<boolean> => {
  if (session.status === "admin") {
    signedOut("Your session as a super-admin has ended");
    return Promise.resolve(false);
  }
  renewing ??= call("refreshSession", { body: {} as never })
    .then(({ accessToken, user }) => {
      if (session.status === "in" && session.account.user.id !== user.id) {
        // Another tab has signed somebody else in: what this one shows is not theirs.
        location.reload();
        return false;
      }
      credentials.token = accessToken;
      return true;
    })
    .catch((error: unknown) => {
      if (error instanceof ApiError && error.status < 500 && error.status !== 429)
        signedOut(session.status === "in" ? "Your session has ended" : undefined);
      return false;
    })
    .finally(() => (renewing = undefined));
  return renewing;
};

onExpired(() => {
  credentials.token = undefined;
  return renew();
});

const signedOut = (why?: string): void => {
  localStorage.removeItem(REMEMBERED);
  credentials.token = undefined;
  credentials.project = undefined;
  queryClient.clear();
  set(why === undefined ? { status: "out" } : { status: "out", why });
};

export const readAccount = async (): Promise<void> => {
  set({ status: "in", account: await call("getAccount") });
};

/** Says that there may be a cookie to go on with; scripts cannot see the cookie itself. */
const REMEMBERED = "laurel-signed-in";

/** Takes what a sign-in has answered. */
export const signIn = async ({ accessToken }: { accessToken: string }): Promise<void> => {
  credentials.token = accessToken;
  localStorage.setItem(REMEMBERED, "yes");
  await readAccount();
};

export const signInAdmin = async ({ accessToken }: { accessToken: string }): Promise<void> => {
  credentials.token = accessToken;
  set({ status: "admin", admin: await call("getSuperadmin") });
};

export const signOut = async (): Promise<void> => {
  const id = session.status === "admin" ? "superadminLogout" : "logout";
  // Whatever the server answers, this page forgets the token.
  await call(id, { body: {} as never }).catch(() => undefined);
  signedOut();
};

/** Goes on with the session of the cookie, if there is one. */
export const resume = async (): Promise<void> => {
  if (localStorage.getItem(REMEMBERED) === null || !(await renew())) {
    if (session.status === "loading") set({ status: "out" });
    return;
  }
  await readAccount().catch(() => signedOut());
};
