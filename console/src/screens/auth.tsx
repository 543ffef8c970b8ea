import {
  Alert,
  Anchor,
  Button,
  Center,
  Divider,
  Group,
  Paper,
  PasswordInput,
  Stack,
  Text,
  TextInput,
  Title,
} from "@mantine/core";
import { type ReactNode, useEffect, useState } from "react";
import { Link, useLocation, useSearch } from "wouter";
import { ApiError, call, callAny, provePasskey } from "../api/client.ts";
import { signIn, useApi } from "../api/hooks.ts";
import { ErrorNote } from "../ui/page.tsx";
import { FactorForm, SmallForm, useSending } from "../ui/sending.tsx";

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
            <Text size="md" fw={700}>
              Laurel
            </Text>
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

type SignInProps = {
  title: string;
  logIn: (body: { email: string; password: string }) => Promise<void>;
  /** Signs in with the second factor. */
  complete: (answer: object) => Promise<void>;
  /** Above the form, and below it, where the address that was typed is known. */
  above?: ReactNode;
  below: (email: string) => ReactNode;
};

/** Email and password, and the second factor where an account has one. */
export const SignInCard = ({ title, logIn, complete, above, below }: SignInProps) => {
  const [email, setEmail] = useState("");
  const [challenge, setChallenge] = useState<ApiError["challenge"]>();
  if (challenge)
    return <SecondFactor challenge={challenge} onBack={() => setChallenge(undefined)} complete={complete} />;
  const submit = ({ password }: { password: string }) =>
    logIn({ email, password }).catch((failure: unknown) => {
      if (!(failure instanceof ApiError && failure.challenge)) throw failure;
      setChallenge(failure.challenge);
    });
  return (
    <Card title={title}>
      {above}
      <SmallForm submit="Sign in" onSubmit={submit}>
        <TextInput
          label="Email"
          type="email"
          autoComplete="username webauthn"
          value={email}
          onChange={(event) => setEmail(event.currentTarget.value)}
          required
          autoFocus
        />
        <PasswordInput label="Password" name="password" autoComplete="current-password" required />
      </SmallForm>
      {below(email)}
    </Card>
  );
};

export const SignIn = ({ why }: { why?: string }) => (
  <SignInCard
    title="Sign in"
    logIn={async (body) => signIn(await call("login", { body }))}
    complete={completeLogin}
    above={
      <>
        {why && <Alert color="yellow">{why}</Alert>}
        <PlainNote />
      </>
    }
    below={(email) => (
      <>
        <Group justify="space-between">
          <To to="/forgot-password">Forgot your password?</To>
          <To to="/register">Create an account</To>
        </Group>
        <OtherWays email={email} />
      </>
    )}
  />
);

/** Says that a sign-in elsewhere has begun in this tab, until it comes back here. */
const BEGUN = "laurel-sign-in-begun";

/** Goes where a provider signs people in, which leads back with a code. */
export const enter = (address: string, query: Record<string, string> = {}) => {
  const url = new URL(`/api/v1${address}`, location.origin);
  const back = { response_mode: "code", redirect_uri: `${location.origin}/console/oauth` };
  for (const [name, value] of Object.entries({ ...query, ...back })) url.searchParams.set(name, value);
  sessionStorage.setItem(BEGUN, "yes");
  location.assign(url.href);
};

export const OtherWays = ({ email = "", flow = "login" }: { email?: string; flow?: "login" | "signup" }) => {
  const { data } = useApi("listOAuthProviders");
  const { error, isBusy, send } = useSending();
  const enabled = data?.providers.filter((one) => one.enabled) ?? [];
  const company = async () => {
    const { authUrl } = await call("discoverSso", { body: { email } });
    if (!authUrl) throw new Error("There is no single sign-on for this address");
    enter(authUrl, { login_hint: email });
  };
  const passkey = async () =>
    signIn(await callAny("loginWithPasskey", { body: { credential: await provePasskey() } }));
  if (flow === "signup" && enabled.length === 0) return null;
  return (
    <>
      <Divider label="or" />
      <Stack gap="xs">
        {enabled.map(({ id, name }) => (
          <Button key={id} variant="default" onClick={() => enter(`/auth/oauth/${id}`, { flow })}>
            {`Go on with ${name}`}
          </Button>
        ))}
        {flow === "login" && (
          <>
            <Button variant="default" loading={isBusy} disabled={email === ""} onClick={send(company)}>
              Single sign-on of your company
            </Button>
            {"PublicKeyCredential" in window && (
              <Button variant="default" onClick={send(passkey)}>
                Sign in with a passkey
              </Button>
            )}
          </>
        )}
        <ErrorNote error={error} />
      </Stack>
    </>
  );
};

type FactorProps = {
  challenge: NonNullable<ApiError["challenge"]>;
  onBack: () => void;
  complete: (answer: object) => Promise<void>;
};

const SecondFactor = ({ challenge: { token, methods }, onBack, complete }: FactorProps) => (
  <Card title="Second factor">
    <FactorForm
      hasPasskey={methods.includes("PASSKEY")}
      onSubmit={(proof) => complete({ challengeToken: token, ...proof })}
    >
      The six digits that your app shows
    </FactorForm>
    <Anchor component="button" size="sm" onClick={onBack}>
      Back
    </Anchor>
  </Card>
);

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
  const enterConsole = () => go("/", { replace: true });
  useEffect(() => sessionStorage.removeItem(BEGUN), []);
  useEffect(() => {
    if (code === null || !isWanted) return;
    call("exchangeOAuthCode", { body: { code } })
      .then(signIn)
      .then(enterConsole)
      .catch((failure: unknown) => {
        if (failure instanceof ApiError && failure.challenge) setChallenge(failure.challenge);
        else setError(failure);
      });
  }, [code, isWanted]);
  const token = query.get("challenge_token");
  const owed = challenge ?? (token === null ? undefined : { token, methods: ["TOTP", "PASSKEY"] });
  const complete = (answer: object) => completeLogin(answer).then(enterConsole);
  if (owed) return <SecondFactor challenge={owed} onBack={() => go("/login")} complete={complete} />;
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
      <ErrorNote error={error} />
      <To to="/login">Back to signing in</To>
    </Card>
  );
};
