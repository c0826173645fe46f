//! Keys made from the kernel's randomness.

use super::entropy;
use ring::signature::{Ed25519KeyPair, KeyPair};
use std::io;

/// The private and the public half of a new Ed25519 key.
pub fn ed25519() -> io::Result<([u8; 32], [u8; 32])> {
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&entropy::u128()?.to_le_bytes());
    seed[16..].copy_from_slice(&entropy::u128()?.to_le_bytes());
    let pair = Ed25519KeyPair::from_seed_unchecked(&seed).map_err(|e| io::Error::other(e.to_string()))?;
    let public = pair.public_key().as_ref().try_into().map_err(io::Error::other)?;
    Ok((seed, public))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8032, section 7.1, test 1.
    #[test]
    fn the_public_half_follows_from_the_private_one() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len()).step_by(2).map(|i| u8::from_str_radix(&hex[i..i + 2], 16).unwrap()).collect()
        };
        let seed = bytes("9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60");
        let public = bytes("d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a");
        let pair = Ed25519KeyPair::from_seed_unchecked(&seed).unwrap();
        assert_eq!(pair.public_key().as_ref(), public);
        assert_ne!(ed25519().unwrap(), ed25519().unwrap());
    }
}
