import { Alert, Button, PasswordInput, Text, TextInput } from "@mantine/core";
import { type ReactNode, useState } from "react";
import { useLocation, useSearch } from "wouter";
import { call } from "../api/client.ts";
import { readAccount, signIn, signOut, useAccount, useApi, useRead } from "../api/hooks.ts";
import { words } from "../format.ts";
import { Part } from "../ui/page.tsx";
import { SmallForm } from "../ui/sending.tsx";
import { Card, enter, OtherWays, PlainNote, To } from "./auth.tsx";

const NewPassword = (props: { label?: string; autoFocus?: boolean }) => (
  <PasswordInput
    label="Password"
    name="password"
    autoComplete="new-password"
    description="At least 8 characters, with an uppercase letter, a lowercase letter and a number"
    required
    {...props}
  />
);

export const Register = () => {
  const [, go] = useLocation();
  const captcha = useApi("getCaptcha");
  const register = async (body: any) => {
    await signIn(await call("register", { body }));
    go("/");
  };
  return (
    <Card title="Create an account">
      <PlainNote />
      {captcha.data && captcha.data.provider !== "none" && (
        <Alert color="yellow" title={`This server asks for a captcha (${captcha.data.provider})`}>
          The console shows none, as it loads nothing from other hosts: ask an owner of your team for an
          invitation.
        </Alert>
      )}
      <SmallForm submit="Create the account" onSubmit={register}>
        <TextInput label="Your name" name="name" autoComplete="name" required autoFocus />
        <TextInput label="Studio or company" name="tenantName" autoComplete="organization" required />
        <TextInput label="Email" name="email" type="email" autoComplete="username" required />
        <NewPassword />
      </SmallForm>
      <To to="/login">You have an account? Sign in</To>
      <OtherWays flow="signup" />
    </Card>
  );
};

type StepProps = {
  title: string;
  submit: string;
  work: (values: any) => Promise<unknown>;
  /** Said when it is done. */
  done: string;
  children?: ReactNode;
};

/** One thing to do on the way into the console. */
const Step = ({ title, submit, work, done, children }: StepProps) => {
  const [isDone, setDone] = useState(false);
  const send = (values: any) => work(values).then(() => setDone(true));
  return (
    <Card title={title}>
      {isDone ? (
        <Alert color="teal">{done}</Alert>
      ) : (
        <SmallForm submit={submit} onSubmit={send}>
          {children}
        </SmallForm>
      )}
      <To to="/">To the console</To>
    </Card>
  );
};

export const Forgot = () => (
  <Step
    title="Set a new password"
    submit="Send me a link"
    work={(body) => call("forgotPassword", { body })}
    done="If there is an account of this address, a mail with a link is on its way."
  >
    <TextInput label="Email" name="email" type="email" required autoFocus />
  </Step>
);

const useToken = (): string => new URLSearchParams(useSearch()).get("token") ?? "";

export const Reset = () => {
  const token = useToken();
  return (
    <Step
      title="Choose a new password"
      submit="Set the password"
      work={({ password }) => call("resetPassword", { body: { token, password } })}
      done="Your password is set."
    >
      <NewPassword label="New password" autoFocus />
    </Step>
  );
};

/** A click, not the opening of the page, proves the address: programs that look into mails open links. */
export const Verify = () => {
  const token = useToken();
  const verify = async () => {
    await call("verifyEmail", { body: { token } });
    await readAccount().catch(() => undefined);
  };
  return (
    <Step title="Verify your address" submit="Verify my address" work={verify} done="It is verified now." />
  );
};

export const Accept = () => (
  <Card title="Join the team">
    <Part lines={3}>
      <Invitation />
    </Part>
  </Card>
);

const Invitation = () => {
  const token = useToken();
  const [, go] = useLocation();
  const { email, tenantName, role, authUrl } = useRead("readInvitation", { query: { token } });
  const accept = async ({ name, password }: { name: string; password: string }) => {
    await signIn(await call("acceptInvitation", { body: { token, name, password } }));
    go("/");
  };
  return (
    <>
      <Text>
        You are invited to <b>{tenantName}</b> as {words(role).toLowerCase()}, with the address {email}.
      </Text>
      {authUrl ? (
        <Button onClick={() => enter(authUrl, { login_hint: email })}>Go on with single sign-on</Button>
      ) : (
        <SmallForm submit="Join" onSubmit={accept}>
          <TextInput label="Your name" name="name" required autoFocus />
          <NewPassword />
        </SmallForm>
      )}
    </>
  );
};

export const CompleteProfile = () => {
  const { user } = useAccount();
  const complete = async ({ name, tenantName }: { name: string; tenantName?: string }) => {
    await call("completeProfile", { body: tenantName ? { name, tenantName } : { name } });
    await readAccount();
  };
  return (
    <Card title="Almost there">
      <SmallForm submit="Go on" onSubmit={complete}>
        <TextInput label="Your name" name="name" defaultValue={user.name} required autoFocus />
        {user.role === "OWNER" && <TextInput label="Studio or company" name="tenantName" />}
      </SmallForm>
      <Button variant="subtle" onClick={() => void signOut()}>
        Sign out
      </Button>
    </Card>
  );
};
