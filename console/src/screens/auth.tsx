import {
  Alert,
  Anchor,
  Button,
  Center,
  Divider,
  Group,
  Paper,
  PasswordInput,
  PinInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { ApiError, call, callAny } from "../api/client.ts";
import { useApi } from "../api/hooks.ts";
import { passkeyAnswer } from "../api/passkeys.ts";
import { signIn } from "../api/session.ts";
import { ErrorNote } from "../ui/page.tsx";
import { useSending } from "../ui/sending.ts";

/** One card in the middle, as every page of somebody who is not signed in. */
export const Card = ({ title, children }: { title: string; children: ReactNode }) => {
  useEffect(() => {
    document.title = `${title} · Laurel`;
  }, [title]);
  return (
    <Center mih="100vh" p="md" component="main">
      <Paper withBorder p="xl" w={400}>
        <Stack>
          <Group gap="xs">
            <img src="/console/icon.svg" alt="" width={28} height={28} />
            <Text fw={700}>Laurel</Text>
          </Group>
          <Title order={1} size="h3">
            {title}
          </Title>
          {children}
        </Stack>
      </Paper>
    </Center>
  );
};

export const To = ({ to, children }: { to: string; children: ReactNode }) => (
  <Anchor component={Link} href={to} size="sm">
    {children}
  </Anchor>
);

/** Browsers keep a secure cookie on plain http for this machine alone. */
const isPlain = () =>
  location.protocol === "http:" &&
  !/^(localhost|127\.0\.0\.1|\[::1\]|.*\.localhost)$/.test(location.hostname);

export const PlainNote = () =>
  isPlain() ? (
    <Alert color="yellow" title="This address is not encrypted">
      Passwords travel in the clear here, and a reload may sign you out. Put a proxy with HTTPS in front of
      the server.
    </Alert>
  ) : null;

export const SignIn = ({ why }: { why?: string }) => {
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  const { error, isBusy, send } = useSending();
  if (challenge) return <SecondFactor challenge={challenge} onBack={() => setChallenge(undefined)} />;
  const logIn = async () => {
    try {
      await signIn(await call("login", { body: { email, password } }));
    } catch (failure) {
      if (failure instanceof ApiError && failure.challenge) return setChallenge(failure.challenge);
      throw failure;
    }
  };
  return (
    <Card title="Sign in">
      {why && <Alert color="yellow">{why}</Alert>}
      <PlainNote />
      <form onSubmit={send(logIn)}>
        <Stack gap="sm">
          <TextInput
            label="Email"
            type="email"
            autoComplete="username webauthn"
            value={email}
            onChange={(event) => setEmail(event.currentTarget.value)}
            required
            autoFocus
          />
          <PasswordInput
            label="Password"
            autoComplete="current-password"
            value={password}
            onChange={(event) => setPassword(event.currentTarget.value)}
            required
          />
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy} fullWidth>
            Sign in
          </Button>
        </Stack>
      </form>
      <Group justify="space-between">
        <To to="/forgot-password">Forgot your password?</To>
        <To to="/register">Create an account</To>
      </Group>
      <OtherWays email={email} />
    </Card>
  );
};

/** Says that a sign-in elsewhere has begun in this tab, until it comes back here. */
const BEGUN = "laurel-sign-in-begun";
const leaveFor = (address: string): void => {
  sessionStorage.setItem(BEGUN, "yes");
  location.assign(address);
};

const enter = (provider: string, flow: "login" | "signup") => {
  const query = new URLSearchParams({
    flow,
    response_mode: "code",
    redirect_uri: `${location.origin}/console/oauth`,
  });
  leaveFor(`/api/v1/auth/oauth/${provider}?${query.toString()}`);
};

export const OtherWays = ({ email, flow = "login" }: { email: string; flow?: "login" | "signup" }) => {
  const { data } = useApi("listOAuthProviders");
  const { error, isBusy, send } = useSending();
  const enabled = data?.providers.filter((one) => one.enabled) ?? [];
  const company = async () => {
    const { authUrl } = await call("discoverSso", { body: { email } });
    if (!authUrl) throw new Error("There is no single sign-on for this address");
    const url = new URL(authUrl, location.origin);
    url.searchParams.set("response_mode", "code");
    url.searchParams.set("redirect_uri", `${location.origin}/console/oauth`);
    leaveFor(url.href);
  };
  const passkey = async () => {
    const options = await callAny("startPasskeyLogin");
    await signIn(await callAny("loginWithPasskey", { body: { credential: await passkeyAnswer(options) } }));
  };
  if (flow === "signup" && enabled.length === 0) return null;
  return (
    <>
      <Divider label="or" />
      <Stack gap="xs">
        {enabled.map(({ id, name }) => (
          <Button key={id} variant="default" onClick={() => enter(id, flow)}>
            {`Go on with ${name}`}
          </Button>
        ))}
        {flow === "login" && (
          <>
            <Button
              variant="default"
              loading={isBusy}
              disabled={email === ""}
              onClick={() => send(company)()}
            >
              Single sign-on of your company
            </Button>
            {"PublicKeyCredential" in window && (
              <Button variant="default" onClick={() => send(passkey)()}>
                Sign in with a passkey
              </Button>
            )}
          </>
        )}
        {error !== undefined && <ErrorNote error={error} />}
      </Stack>
    </>
  );
};

type FactorProps = {
  challenge: NonNullable<ApiError["challenge"]>;
  onBack: () => void;
  /** Default: that of a team's member. */
  complete?: (answer: object) => Promise<void>;
  onDone?: () => void;
};

export const SecondFactor = ({ challenge, onBack, complete = completeLogin, onDone }: FactorProps) => {
  const [code, setCode] = useState("");
  const [isRecovery, setRecovery] = useState(false);
  const { error, isBusy, send } = useSending();
  const finish = (given: string) =>
    send(async () => {
      await complete({ challengeToken: challenge.token, code: given.trim() });
      onDone?.();
    });
  const byPasskey = async () => {
    const options = await callAny("startPasskeyLogin");
    await complete({ challengeToken: challenge.token, passkey: await passkeyAnswer(options) });
    onDone?.();
  };
  return (
    <Card title="Second factor">
      <form onSubmit={finish(code)}>
        <Stack>
          {isRecovery ? (
            <TextInput
              label="Recovery code"
              value={code}
              onChange={(event) => setCode(event.currentTarget.value)}
              autoFocus
            />
          ) : (
            <>
              <Text size="sm">The six digits that your app shows</Text>
              <PinInput
                length={6}
                type="number"
                value={code}
                onChange={setCode}
                onComplete={(given) => finish(given)()}
                oneTimeCode
                autoFocus
                aria-label="Code"
              />
            </>
          )}
          {error !== undefined && <ErrorNote error={error} />}
          <Button type="submit" loading={isBusy}>
            Go on
          </Button>
          {challenge.methods.includes("PASSKEY") && (
            <Button variant="default" onClick={() => send(byPasskey)()}>
              Use a passkey
            </Button>
          )}
          <Group justify="space-between">
            <Anchor component="button" type="button" size="sm" onClick={() => setRecovery(!isRecovery)}>
              {isRecovery ? "Use the app" : "Use a recovery code"}
            </Anchor>
            <Anchor component="button" type="button" size="sm" onClick={onBack}>
              Back
            </Anchor>
          </Group>
        </Stack>
      </form>
    </Card>
  );
};

const completeLogin = async (answer: object) => signIn(await callAny("completeLogin", { body: answer }));

/**
 * Where a provider's sign-in comes back to, with a code that is good once. One that has not begun here may be a
 * link to somebody else's account, whose owner would see all that is written there: a person has to want it.
 */
export const OAuthReturn = () => {
  const query = new URLSearchParams(useSearch());
  const [, go] = useLocation();
  const [isWanted, setWanted] = useState(() => sessionStorage.getItem(BEGUN) !== null);
  const [error, setError] = useState<unknown>();
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  const code = query.get("code");
  const refused = query.get("error_description") ?? query.get("error");
  useEffect(() => sessionStorage.removeItem(BEGUN), []);
  useEffect(() => {
    if (code === null || !isWanted) return;
    call("exchangeOAuthCode", { body: { code } })
      .then(signIn)
      .then(() => go("/", { replace: true }))
      .catch((failure: unknown) => {
        if (failure instanceof ApiError && failure.challenge) setChallenge(failure.challenge);
        else setError(failure);
      });
  }, [code, isWanted]);
  const token = query.get("challenge_token");
  const owed = challenge ?? (token === null ? undefined : { token, methods: ["TOTP", "PASSKEY"] });
  if (owed)
    return (
      <SecondFactor challenge={owed} onBack={() => go("/login")} onDone={() => go("/", { replace: true })} />
    );
  return (
    <Card title="Signing in">
      {refused !== null && code === null && (
        <Alert color="red">{isWanted ? refused : "The sign-in has failed."}</Alert>
      )}
      {code !== null && !isWanted && (
        <>
          <Text size="sm">
            This sign-in did not begin in this window. Go on only if you have just chosen Laurel where you
            sign in to your company: a link from somebody else may lead into their account.
          </Text>
          <Button variant="default" onClick={() => setWanted(true)}>
            Go on
          </Button>
        </>
      )}
      {error !== undefined && <ErrorNote error={error} />}
      <To to="/login">Back to signing in</To>
    </Card>
  );
};
