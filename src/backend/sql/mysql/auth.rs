//! The login plugins that shedlock knows, with their answers to the server's nonce.

use num_bigint::BigUint;
use ring::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA1_OUTPUT_LEN, SHA256, digest};
use rustls::pki_types::SubjectPublicKeyInfoDer;
use rustls::pki_types::pem::PemObject;

use super::wire::NONCE;

/// Names a plugin by which a password is proved.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Plugin {
    Native,
    CachingSha2,
}

/// Lengths in bytes that an RSA key may have: from 1,024 to 8,192 bits.
const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 128..=1024;

impl Plugin {
    pub(crate) fn from_name(name: &str) -> Option<Self> {
        [Self::Native, Self::CachingSha2].into_iter().find(|plugin| plugin.name() == name)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Native => "mysql_native_password",
            Self::CachingSha2 => "caching_sha2_password",
        }
    }

    /// Returns the answer to a nonce, which does not reveal the password. Without a password it is empty.
    pub(crate) fn answer(self, password: &str, nonce: &[u8; NONCE]) -> Vec<u8> {
        if password.is_empty() {
            return Vec::new();
        }
        let once = |text: &[u8]| digest(self.algorithm(), text).as_ref().to_vec();
        let first = once(password.as_bytes());
        let twice = once(&first);
        let mask = match self {
            Self::Native => once(&[nonce.as_slice(), &twice].concat()),
            Self::CachingSha2 => once(&[twice.as_slice(), nonce].concat()),
        };
        first.iter().zip(mask).map(|(one, other)| one ^ other).collect()
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Native => &SHA1_FOR_LEGACY_USE_ONLY,
            Self::CachingSha2 => &SHA256,
        }
    }
}

/// Encrypts a password with the server's key, which came in PEM; `None` if that is no key, or too short a one.
pub(crate) fn encrypt(password: &str, nonce: &[u8; NONCE], pem: &[u8]) -> Option<Vec<u8>> {
    let mut seed = [0; SHA1_OUTPUT_LEN];
    getrandom::fill(&mut seed).ok()?;
    let masked: Vec<u8> =
        password.bytes().chain([0]).zip(nonce.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect();
    let key = SubjectPublicKeyInfoDer::from_pem_slice(pem).ok()?;
    let (modulus, exponent) = read_key(&key)?;
    encrypt_with(modulus, exponent, &masked, seed)
}

/// Encrypts with RSA and OAEP, whose hash is SHA-1.
fn encrypt_with(modulus: &[u8], exponent: &[u8], text: &[u8], seed: [u8; SHA1_OUTPUT_LEN]) -> Option<Vec<u8>> {
    let length = modulus.len();
    if !KEY_LENGTHS.contains(&length) || !(1..=4).contains(&exponent.len()) {
        return None;
    }
    let padding = length.checked_sub(text.len() + 2 * SHA1_OUTPUT_LEN + 2)?;
    let label = digest(&SHA1_FOR_LEGACY_USE_ONLY, b"");
    let mut block = [label.as_ref(), &vec![0; padding], &[1], text].concat();
    let mut seed = seed.to_vec();
    mix(&mut block, &seed);
    mix(&mut seed, &block);
    let block = BigUint::from_bytes_be(&[seed, block].concat());
    let sealed = block.modpow(&BigUint::from_bytes_be(exponent), &BigUint::from_bytes_be(modulus)).to_bytes_be();
    Some([vec![0; length.saturating_sub(sealed.len())], sealed].concat())
}

/// Mixes bytes with a mask that is made of the seed.
fn mix(bytes: &mut [u8], seed: &[u8]) {
    for (part, number) in bytes.chunks_mut(SHA1_OUTPUT_LEN).zip(0_u32..) {
        let mask = digest(&SHA1_FOR_LEGACY_USE_ONLY, &[seed, &number.to_be_bytes()].concat());
        part.iter_mut().zip(mask.as_ref()).for_each(|(byte, mask)| *byte ^= mask);
    }
}

/// Reads modulus and exponent of an RSA key, without zeros in front.
fn read_key(info: &[u8]) -> Option<(&[u8], &[u8])> {
    const SEQUENCE: u8 = 0x30;
    let (info, _) = element(info, SEQUENCE)?;
    let (_algorithm, rest) = element(info, SEQUENCE)?;
    let (bits, _) = element(rest, 0x03)?;
    // The first byte says how many bits of the last one do not count.
    let (key, _) = element(bits.strip_prefix(&[0])?, SEQUENCE)?;
    let (modulus, rest) = element(key, 0x02)?;
    let (exponent, _) = element(rest, 0x02)?;
    let bare = |number: &'_ [u8]| number.iter().position(|byte| *byte != 0);
    Some((&modulus[bare(modulus)?..], &exponent[bare(exponent)?..]))
}

/// Reads an element of this kind in DER: its content, and what comes after it.
fn element(bytes: &[u8], kind: u8) -> Option<(&[u8], &[u8])> {
    let (length, rest) = match bytes {
        [found, length @ ..=0x7f, rest @ ..] if *found == kind => (usize::from(*length), rest),
        [found, 0x81, length, rest @ ..] if *found == kind => (usize::from(*length), rest),
        [found, 0x82, high, low, rest @ ..] if *found == kind => (usize::from(*high) << 8 | usize::from(*low), rest),
        _ => return None,
    };
    rest.split_at_checked(length)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::test_runner::Config;

    use super::*;

    const NONCE: &[u8; super::NONCE] = b"abcdefghabcdefghijkl";
    /// A key of 1,024 bits.
    const PEM: &str = "-----BEGIN PUBLIC KEY-----\n\
        MIGfMA0GCSqGSIb3DQEBAQUAA4GNADCBiQKBgQC3cN9DecG8zKGduyQXl7Ek9Hb9\n\
        s4wawp6SqMH6KihxSht46pKbdeY7abKTnucSz5YiqPaUFpP34LFZ25s3ZPB4Dwa4\n\
        mMA2W/clzKXcnoPLyHeEZ840bE5TIj8VZlxRMyyhnZttY3Qr9t+zLhbo6cFYnY7b\n\
        JKndeBp6N5q1Y/syyQIDAQAB\n\
        -----END PUBLIC KEY-----\n";

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<u8> = hexadecimal.bytes().filter(u8::is_ascii_hexdigit).collect();
        let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    #[test]
    fn the_answers_are_those_of_the_documentation() {
        assert_eq!(Plugin::Native.answer("secret", NONCE), bytes("169db9177907779146a2c6a0e6516f2c6b92c84f"));
        assert_eq!(
            Plugin::CachingSha2.answer("secret", NONCE),
            bytes("602de5e3015e1b90513ca4633e8cd03c629eb2523c8d45c0eb4d31e57e20e4e8")
        );
        assert!(Plugin::Native.answer("", NONCE).is_empty() && Plugin::CachingSha2.answer("", NONCE).is_empty());
        assert_eq!(Plugin::from_name("caching_sha2_password"), Some(Plugin::CachingSha2));
        assert_eq!(Plugin::from_name("mysql_clear_password"), None);
    }

    /// Repeats the example in the paper of RSA Laboratories on OAEP.
    #[test]
    fn a_text_is_encrypted_as_in_the_example() {
        let modulus = bytes(
            "bbf82f090682ce9c2338ac2b9da871f7368d07eed41043a440d6b6f07454f51fb8dfbaaf035c02ab61ea48ceeb6fcd4876ed \
             520d60e1ec4619719d8a5b8b807fafb8e0a3dfc737723ee6b4b7d93a2584ee6a649d060953748834b2454598394ee0aab12d \
             7b61a51f527a9a41f6c1687fe2537298ca2a8f5946f8e5fd091dbdcb",
        );
        let seed = bytes("aafd12f659cae63489b479e5076ddec2f06cb58f").try_into().unwrap();
        let sealed = encrypt_with(&modulus, &[0x11], &bytes("d436e99569fd32a7c8a05bbc90d32c49"), seed).unwrap();
        let expected = bytes(
            "1253e04dc0a5397bb44a7ab87e9bf2a039a33d1e996fc82a94ccd30074c95df763722017069e5268da5d1c0b4f872cf653c1 \
             1df82314a67968dfeae28def04bb6d84b1c31d654a1970e5783bd6eb96a024c2ca2f4a90fe9f2ef5c9c140e5bb48da9536ad \
             8700c84fc9130adea74e558d51a74ddf85d8b50de96838d6063e0955",
        );
        assert_eq!(sealed, expected);
    }

    #[test]
    fn a_key_that_is_none_or_too_short_is_refused() {
        assert_eq!(encrypt("secret", NONCE, PEM.as_bytes()).unwrap().len(), 128);
        assert_eq!(encrypt(&"x".repeat(86), NONCE, PEM.as_bytes()), None);
        for wrong in ["", "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", &PEM[..100]] {
            assert_eq!(encrypt("secret", NONCE, wrong.as_bytes()), None, "{wrong}");
        }
        let seed = [0; SHA1_OUTPUT_LEN];
        assert_eq!(encrypt_with(&[0xff; 16], &[3], b"x", seed), None);
        assert_eq!(encrypt_with(&[0xff; 2048], &[3], b"x", seed), None);
        assert_eq!(encrypt_with(&[0xff; 128], &[0xff; 128], b"x", seed), None);
    }

    proptest! {
        #![proptest_config(Config { failure_persistence: None, ..Config::with_cases(2000) })]

        #[test]
        fn any_bytes_are_a_key_or_none(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = (read_key(&bytes), encrypt("secret", NONCE, &bytes));
        }

        #[test]
        fn a_key_that_is_damaged_is_one_or_none(at in 0..PEM.len(), byte: u8) {
            let mut pem = PEM.as_bytes().to_vec();
            pem[at] = byte;
            let _ = encrypt("secret", NONCE, &pem);
        }
    }
}
